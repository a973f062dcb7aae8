//! Avro schemas: parsed from JSON, and their types in Arrow.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Fields, IntervalUnit, TimeUnit};
use serde_json::{Map, Value};

use crate::limits::{CHARS_PER_NAME, below, names_limit};

/// Named types can be in each other to any depth.
const MAX_DEPTH: usize = 64;
/// Names can be used twice at each level: a short schema may mean any number of columns.
const MAX_COLUMNS: usize = 10_000;
/// Types, symbols and aliases of a schema, with those that it refers to. A writer's schema may have
/// more types than the reader has columns.
const MAX_PARTS: usize = 100_000;
/// A null of type fixed takes its bytes: a wide one counts as several columns.
const BYTES_PER_COLUMN: usize = 64;
/// Decimal256 has no more digits.
const MAX_DIGITS: u64 = 76;

/// The types of a schema; they refer to each other by index.
pub struct Schema {
    pub nodes: Vec<Node>,
    pub root: usize,
    names: HashMap<String, usize>,
    /// How many parts may still come.
    parts_left: usize,
    /// A namespace is part of each name in it: how many bytes of full names may still come.
    names_left: usize,
}

pub struct Node {
    pub kind: Kind,
    pub logical: Option<Logical>,
}

pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(Name, usize),
    Enum(Name, Vec<String>, Option<String>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    Record(Name, Vec<Field>),
}

/// Full names.
pub struct Name {
    pub name: String,
    pub aliases: Vec<String>,
}

pub struct Field {
    pub name: String,
    pub aliases: Vec<String>,
    pub schema: usize,
    pub default: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Logical {
    Decimal(u8, i8),
    Date,
    Time(TimeUnit),
    Timestamp(TimeUnit),
    LocalTimestamp(TimeUnit),
    Duration,
}

impl fmt::Display for Logical {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = match self {
            Logical::Decimal(precision, scale) => {
                return write!(formatter, "decimal of precision {precision} and scale {scale}");
            }
            Logical::Date => return formatter.write_str("date"),
            Logical::Duration => return formatter.write_str("duration"),
            Logical::Time(unit) => ("time", unit),
            Logical::Timestamp(unit) => ("timestamp", unit),
            Logical::LocalTimestamp(unit) => ("local-timestamp", unit),
        };
        let unit = match unit {
            TimeUnit::Second => "seconds",
            TimeUnit::Millisecond => "millis",
            TimeUnit::Microsecond => "micros",
            TimeUnit::Nanosecond => "nanos",
        };
        write!(formatter, "{name}-{unit}")
    }
}

impl Schema {
    /// Parses a schema; those that it refers to come before it.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let mut schema = Schema {
            nodes: Vec::new(),
            root: 0,
            names: HashMap::new(),
            parts_left: MAX_PARTS,
            names_left: names_limit(texts.iter().map(String::len).sum()),
        };
        for text in texts {
            // A name alone, such as string, needs no quotation marks.
            let is_name = !text.is_empty() && text.bytes().all(|each| each.is_ascii_lowercase());
            let value = if is_name {
                Value::from(text.as_str())
            } else {
                serde_json::from_str(text)
                    .map_err(|error| format!("the schema is not JSON: {error}"))?
            };
            schema.root = schema.add(&value, "")?;
        }
        if texts.is_empty() { Err("there is no schema".to_owned()) } else { Ok(schema) }
    }

    /// The type of a column. Decimals have at most so many digits.
    pub fn data_type(&self, max_precision: u8) -> Result<DataType, String> {
        let (above, columns_left) = (Vec::new(), MAX_COLUMNS);
        let mut types = Types { schema: self, above, columns_left, max_precision };
        Ok(types.field(self.root, "", "$")?.data_type().clone())
    }

    /// The branches of a union that are not null.
    pub fn members(&self, branches: &[usize]) -> Vec<usize> {
        let is_member = |branch: &usize| !matches!(self.nodes[*branch].kind, Kind::Null);
        branches.iter().copied().filter(is_member).collect()
    }

    /// Whether a union of these members is a column of its wider number, as in Spark.
    pub fn is_number(&self, members: &[usize]) -> bool {
        let [one, other] = members else { return false };
        let (one, other) = (&self.nodes[*one], &self.nodes[*other]);
        one.logical.is_none()
            && other.logical.is_none()
            && matches!(
                (&one.kind, &other.kind),
                (Kind::Int, Kind::Long)
                    | (Kind::Long, Kind::Int)
                    | (Kind::Float, Kind::Double)
                    | (Kind::Double, Kind::Float)
            )
    }

    fn push(&mut self, kind: Kind) -> Result<usize, String> {
        self.count(1)?;
        self.nodes.push(Node { kind, logical: None });
        Ok(self.nodes.len() - 1)
    }

    fn count(&mut self, parts: usize) -> Result<(), String> {
        let left = self.parts_left.checked_sub(parts);
        self.parts_left = left.ok_or_else(|| {
            format!("the schema has more than {MAX_PARTS} types, symbols and aliases")
        })?;
        Ok(())
    }

    fn full(&mut self, name: &str, space: &str) -> Result<String, String> {
        let name = full(name, space);
        let left = self.names_left.checked_sub(name.len());
        self.names_left = left.ok_or("the names with their namespaces are too long")?;
        Ok(name)
    }

    fn add(&mut self, value: &Value, space: &str) -> Result<usize, String> {
        match value {
            Value::String(name) => self.named(name, space),
            Value::Array(branches) => {
                let branches: Vec<usize> =
                    branches.iter().map(|each| self.add(each, space)).collect::<Result<_, _>>()?;
                if branches.iter().any(|each| matches!(self.nodes[*each].kind, Kind::Union(_))) {
                    return Err("a union is directly in a union".to_owned());
                }
                self.push(Kind::Union(branches))
            }
            Value::Object(object) => self.object(object, space),
            other => Err(format!("{other} is no type")),
        }
    }

    fn named(&mut self, name: &str, space: &str) -> Result<usize, String> {
        let kind = match name {
            "null" => Kind::Null,
            "boolean" => Kind::Boolean,
            "int" => Kind::Int,
            "long" => Kind::Long,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "bytes" => Kind::Bytes,
            "string" => Kind::String,
            _ => {
                let found = self.names.get(&full(name, space)).or_else(|| self.names.get(name));
                return found.copied().ok_or_else(|| format!("the type {name:?} is not defined"));
            }
        };
        self.push(kind)
    }

    fn object(&mut self, object: &Map<String, Value>, space: &str) -> Result<usize, String> {
        let part = |name: &str| object.get(name).ok_or_else(|| format!("{name:?} is missing"));
        let kind = match part("type")? {
            Value::String(kind) => kind.as_str(),
            nested => return self.add(nested, space),
        };
        match kind {
            "array" => {
                let items = self.add(part("items")?, space)?;
                self.push(Kind::Array(items))
            }
            "map" => {
                let values = self.add(part("values")?, space)?;
                self.push(Kind::Map(values))
            }
            "record" | "error" | "enum" | "fixed" => {
                let short = part("name")?.as_str().ok_or("the name of a type is no string")?;
                let space = object.get("namespace").and_then(Value::as_str).unwrap_or(space);
                let name = self.full(short, space)?;
                let space = name.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
                let aliases = strings(object.get("aliases"));
                self.count(aliases.len())?;
                let aliases = aliases.iter().map(|alias| self.full(alias, &space));
                let aliases = aliases.collect::<Result<_, _>>()?;
                let index = self.push(Kind::Null)?;
                if self.names.insert(name.clone(), index).is_some() {
                    return Err(format!("the type {name:?} is defined twice"));
                }
                let name = Name { name, aliases };
                self.nodes[index].kind = match kind {
                    "enum" => {
                        let default = object.get("default").and_then(Value::as_str);
                        let symbols = strings(Some(part("symbols")?));
                        self.count(symbols.len())?;
                        Kind::Enum(name, symbols, default.map(str::to_owned))
                    }
                    "fixed" => {
                        let size = part("size")?.as_u64().filter(|size| *size <= i32::MAX as u64);
                        Kind::Fixed(name, size.ok_or("the size of a fixed is none")? as usize)
                    }
                    _ => Kind::Record(name, self.fields(part("fields")?, &space)?),
                };
                self.nodes[index].logical = logical(object, &self.nodes[index].kind);
                Ok(index)
            }
            name => {
                let index = self.named(name, space)?;
                if !matches!(self.nodes[index].kind, Kind::Fixed(..)) {
                    self.nodes[index].logical = logical(object, &self.nodes[index].kind);
                }
                Ok(index)
            }
        }
    }

    fn fields(&mut self, value: &Value, space: &str) -> Result<Vec<Field>, String> {
        let (mut fields, mut names) = (Vec::new(), HashSet::new());
        for each in value.as_array().ok_or("the fields of a record are no array")? {
            let name = each.get("name").and_then(Value::as_str).ok_or("a field has no name")?;
            if !names.insert(name) {
                return Err(format!("the field {name:?} is in a record twice"));
            }
            let kind = each.get("type").ok_or_else(|| format!("the field {name:?} has no type"))?;
            let aliases = strings(each.get("aliases"));
            self.count(aliases.len())?;
            fields.push(Field {
                name: name.to_owned(),
                aliases,
                schema: self.add(kind, space)?,
                default: each.get("default").cloned(),
            });
        }
        Ok(fields)
    }
}

/// Makes the types of columns.
struct Types<'a> {
    schema: &'a Schema,
    /// The types that contain this one.
    above: Vec<usize>,
    columns_left: usize,
    max_precision: u8,
}

impl Types<'_> {
    fn field(&mut self, index: usize, name: &str, place: &str) -> Result<ArrowField, String> {
        let schema = self.schema;
        let node = &schema.nodes[index];
        let width = if let Kind::Fixed(_, size) = node.kind { size / BYTES_PER_COLUMN } else { 0 };
        let width = width + name.len() / CHARS_PER_NAME;
        let left = self.columns_left.checked_sub(1 + width);
        self.columns_left = left.ok_or("the schema has too many or too wide fields")?;
        if self.above.contains(&index) {
            return Err(format!(
                "{place}: the schema refers to itself, which no Arrow type does; with a registry, \
                 give a schema without that field, and it is skipped"
            ));
        }
        if self.above.len() == MAX_DEPTH {
            return Err(format!("the schema is deeper than {MAX_DEPTH} levels"));
        }
        self.above.push(index);
        let mut nullable = false;
        let data_type = match (&node.kind, node.logical) {
            (_, Some(Logical::Decimal(precision, scale))) if precision <= 38 => {
                DataType::Decimal128(precision, scale)
            }
            (_, Some(Logical::Decimal(precision, scale))) if precision <= self.max_precision => {
                DataType::Decimal256(precision, scale)
            }
            (_, Some(Logical::Decimal(_, scale)))
                if i16::from(scale) <= i16::from(self.max_precision) =>
            {
                DataType::Decimal128(self.max_precision, scale)
            }
            (_, Some(Logical::Decimal(_, scale))) => {
                return Err(format!(
                    "{place}: a decimal with {scale} digits after the point has no place in \
                     max_precision={}",
                    self.max_precision
                ));
            }
            (_, Some(Logical::Date)) => DataType::Date32,
            (_, Some(Logical::Time(TimeUnit::Millisecond))) => {
                DataType::Time32(TimeUnit::Millisecond)
            }
            (_, Some(Logical::Time(unit))) => DataType::Time64(unit),
            (_, Some(Logical::Timestamp(unit))) => DataType::Timestamp(unit, Some("UTC".into())),
            (_, Some(Logical::LocalTimestamp(unit))) => DataType::Timestamp(unit, None),
            (_, Some(Logical::Duration)) => DataType::Interval(IntervalUnit::MonthDayNano),
            (Kind::Null, _) => {
                nullable = true;
                DataType::Null
            }
            (Kind::Boolean, _) => DataType::Boolean,
            (Kind::Int, _) => DataType::Int32,
            (Kind::Long, _) => DataType::Int64,
            (Kind::Float, _) => DataType::Float32,
            (Kind::Double, _) => DataType::Float64,
            (Kind::Bytes, _) => DataType::Binary,
            (Kind::String | Kind::Enum(..), _) => DataType::Utf8,
            (Kind::Fixed(_, size), _) => DataType::FixedSizeBinary(*size as i32),
            (Kind::Array(items), _) => {
                DataType::List(Arc::new(self.field(*items, "item", &below(place, "[]"))?))
            }
            (Kind::Map(values), _) => {
                let key = ArrowField::new("key", DataType::Utf8, false);
                let pair =
                    Fields::from(vec![key, self.field(*values, "value", &below(place, ".*"))?]);
                let entries = ArrowField::new("entries", DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), false)
            }
            (Kind::Union(branches), _) => {
                let members = schema.members(branches);
                nullable = members.len() < branches.len();
                match members[..] {
                    [] => {
                        nullable = true;
                        DataType::Null
                    }
                    [member] => self.field(member, "", place)?.data_type().clone(),
                    _ if schema.is_number(&members) => {
                        let is_whole =
                            matches!(schema.nodes[members[0]].kind, Kind::Int | Kind::Long);
                        if is_whole { DataType::Int64 } else { DataType::Float64 }
                    }
                    _ => {
                        let fields = members.iter().enumerate().map(|(number, member)| {
                            let name = format!("member{number}");
                            let place = below(place, &format!(".{name}"));
                            let field = self.field(*member, &name, &place)?;
                            Ok(field.with_nullable(true))
                        });
                        DataType::Struct(fields.collect::<Result<_, String>>()?)
                    }
                }
            }
            (Kind::Record(_, fields), _) => {
                let fields = fields.iter().map(|field| {
                    let place = below(place, &format!(".{}", field.name));
                    self.field(field.schema, &field.name, &place)
                });
                DataType::Struct(fields.collect::<Result<_, String>>()?)
            }
        };
        self.above.pop();
        Ok(ArrowField::new(name, data_type, nullable))
    }
}

fn full(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() {
        name.trim_start_matches('.').to_owned()
    } else {
        format!("{space}.{name}")
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let values = value.and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A logical type that does not suit its type is ignored.
fn logical(object: &Map<String, Value>, kind: &Kind) -> Option<Logical> {
    let name = object.get("logicalType").and_then(Value::as_str)?;
    let time = |unit: &str| match unit {
        "millis" => Some(TimeUnit::Millisecond),
        "micros" => Some(TimeUnit::Microsecond),
        "nanos" => Some(TimeUnit::Nanosecond),
        _ => None,
    };
    match (kind, name) {
        (Kind::Bytes | Kind::Fixed(..), "decimal") => {
            let precision = object.get("precision").and_then(Value::as_u64)?;
            let scale = object.get("scale").map_or(Some(0), Value::as_u64)?;
            let suits = (1..=MAX_DIGITS).contains(&precision) && scale <= precision;
            suits.then_some(Logical::Decimal(precision as u8, scale as i8))
        }
        (Kind::Fixed(_, 12), "duration") => Some(Logical::Duration),
        (Kind::Int, "date") => Some(Logical::Date),
        (Kind::Int, "time-millis") => Some(Logical::Time(TimeUnit::Millisecond)),
        (Kind::Long, "time-micros") => Some(Logical::Time(TimeUnit::Microsecond)),
        (Kind::Long, _) => {
            if let Some(unit) = name.strip_prefix("local-timestamp-") {
                time(unit).map(Logical::LocalTimestamp)
            } else {
                name.strip_prefix("timestamp-").and_then(time).map(Logical::Timestamp)
            }
        }
        _ => None,
    }
}
