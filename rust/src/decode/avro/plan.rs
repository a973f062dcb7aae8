//! How values of a writer's schema become those of a reader's: schema resolution.

use std::cell::Cell;

use arrow_schema::TimeUnit;
use serde_json::Value;

use crate::decode::avro::schema::{Field, Kind, Logical, Name, Schema};

/// Unions within unions are tried in all combinations.
const MAX_STEPS: usize = 200_000;

/// Reads a type of the writer into a column of the reader.
pub enum Step {
    Null,
    Boolean,
    /// A number, times a factor.
    Number(Wire, i64),
    Bytes,
    Fixed(usize),
    /// The symbols, or why one has no place.
    Enum(Vec<Result<String, String>>),
    List(Box<Step>),
    Map(Box<Step>),
    Record(Vec<Part>),
    /// The branches, or why one has no place.
    Union(Vec<Result<Step, String>>),
    /// A branch of the reader's union: one field of a struct.
    Member(usize, Box<Step>),
}

#[derive(Clone, Copy)]
pub enum Wire {
    Int,
    Long,
    Float,
    Double,
}

pub enum Part {
    /// A field of the writer into a field of the reader.
    Read(usize, Step),
    /// A type of the writer that the reader does not have.
    Skip(usize),
    /// A field of the reader that the writer does not have: its default as Avro.
    Default(usize, Step, Vec<u8>),
}

/// Returns the step for all of a value, or why the schemas do not fit.
pub fn resolve(writer: &Schema, reader: &Schema) -> Result<Step, String> {
    Resolver { writer, reader, left: Cell::new(MAX_STEPS) }.step(writer.root, reader.root, "$")
}

struct Resolver<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    left: Cell<usize>,
}

impl Resolver<'_> {
    fn step(&self, from: usize, to: usize, place: &str) -> Result<Step, String> {
        self.left.set(self.left.get().checked_sub(1).ok_or("the schemas are too large")?);
        let (source, target) = (&self.writer.nodes[from], &self.reader.nodes[to]);
        if let Kind::Union(branches) = &source.kind {
            let steps: Vec<_> = branches.iter().map(|each| self.step(*each, to, place)).collect();
            return match steps.iter().find_map(|step| step.as_ref().err()) {
                Some(reason) if steps.iter().all(Result::is_err) => Err(reason.clone()),
                _ => Ok(Step::Union(steps)),
            };
        }
        if let Kind::Union(branches) = &target.kind {
            return self.union(from, branches, place);
        }
        let mismatch = || {
            format!(
                "{place}: the writer has {}, which is no {}",
                shown(&source.kind, source.logical),
                shown(&target.kind, target.logical)
            )
        };
        let factor = factor(source.logical, target.logical).ok_or_else(mismatch)?;
        Ok(match (&source.kind, &target.kind) {
            (Kind::Null, Kind::Null) => Step::Null,
            (Kind::Boolean, Kind::Boolean) => Step::Boolean,
            (Kind::Int, Kind::Int | Kind::Long | Kind::Float | Kind::Double) => {
                Step::Number(Wire::Int, factor)
            }
            (Kind::Long, Kind::Long | Kind::Float | Kind::Double) => {
                Step::Number(Wire::Long, factor)
            }
            (Kind::Float, Kind::Float | Kind::Double) => Step::Number(Wire::Float, 1),
            (Kind::Double, Kind::Double) => Step::Number(Wire::Double, 1),
            (Kind::Bytes | Kind::String, Kind::Bytes | Kind::String) => Step::Bytes,
            (Kind::Fixed(_, size), Kind::Fixed(_, other)) if size == other => Step::Fixed(*size),
            (Kind::Enum(_, symbols, _), Kind::Enum(_, known, default)) => {
                let step = |symbol: &String| {
                    let found = Some(symbol).filter(|symbol| known.contains(symbol));
                    found.or(default.as_ref()).cloned().ok_or_else(|| {
                        format!("the reader's enum lacks the symbol {symbol:?} and has no default")
                    })
                };
                Step::Enum(symbols.iter().map(step).collect())
            }
            (Kind::Array(items), Kind::Array(wanted)) => {
                Step::List(Box::new(self.step(*items, *wanted, &format!("{place}[]"))?))
            }
            (Kind::Map(values), Kind::Map(wanted)) => {
                Step::Map(Box::new(self.step(*values, *wanted, &format!("{place}.*"))?))
            }
            (Kind::Record(_, fields), Kind::Record(_, wanted)) => {
                self.record(fields, wanted, place)?
            }
            _ => return Err(mismatch()),
        })
    }

    fn union(&self, from: usize, branches: &[usize], place: &str) -> Result<Step, String> {
        let mut ranked = branches.to_vec();
        ranked.sort_by_key(|branch| self.distance(from, *branch));
        let members = self.reader.members(branches);
        let mut reason = format!("{place}: the reader's union is empty");
        for (number, branch) in ranked.into_iter().enumerate() {
            match self.step(from, branch, place) {
                Ok(step) => {
                    let place = members.iter().position(|member| *member == branch);
                    return Ok(match place {
                        Some(index) if members.len() > 1 && !self.reader.is_number(&members) => {
                            Step::Member(index, Box::new(step))
                        }
                        _ => step,
                    });
                }
                Err(told) if number == 0 => reason = told,
                Err(_) => {}
            }
        }
        Err(reason)
    }

    /// How far a branch is from the writer's type: the nearest that fits is taken.
    fn distance(&self, from: usize, branch: usize) -> usize {
        let (source, target) = (&self.writer.nodes[from], &self.reader.nodes[branch]);
        if std::mem::discriminant(&source.kind) != std::mem::discriminant(&target.kind) {
            return 4;
        }
        match (name(&source.kind), name(&target.kind)) {
            (Some(one), Some(other)) => {
                if one.name == other.name {
                    0
                } else if other.aliases.contains(&one.name) {
                    1
                } else if short(&one.name) == short(&other.name) {
                    2
                } else {
                    3
                }
            }
            _ => usize::from(source.logical != target.logical),
        }
    }

    fn record(&self, fields: &[Field], wanted: &[Field], place: &str) -> Result<Step, String> {
        let mut sources: Vec<_> = wanted
            .iter()
            .map(|field| fields.iter().position(|other| other.name == field.name))
            .collect();
        for (field, source) in wanted.iter().zip(0..) {
            if sources[source].is_none() {
                let named = |other: &Field| field.aliases.contains(&other.name);
                let found = fields.iter().position(named);
                sources[source] = found.filter(|index| !sources.contains(&Some(*index)));
            }
        }
        let mut parts = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            parts.push(match sources.iter().position(|source| *source == Some(index)) {
                Some(column) => {
                    let below = &wanted[column];
                    let place = format!("{place}.{}", below.name);
                    Part::Read(column, self.step(field.schema, below.schema, &place)?)
                }
                None => Part::Skip(field.schema),
            });
        }
        for (column, field) in wanted.iter().enumerate() {
            if sources[column].is_some() {
                continue;
            }
            let place = format!("{place}.{}", field.name);
            let default = field.default.as_ref().ok_or_else(|| {
                format!("{place}: the writer does not have the field, and it has no default")
            })?;
            let mut bytes = Vec::new();
            encode(self.reader, field.schema, default, &mut bytes)
                .ok_or_else(|| format!("{place}: the default {default} is not of its type"))?;
            let itself =
                Resolver { writer: self.reader, reader: self.reader, left: self.left.clone() };
            let step = itself.step(field.schema, field.schema, &place)?;
            self.left.set(itself.left.get());
            parts.push(Part::Default(column, step, bytes));
        }
        Ok(Step::Record(parts))
    }
}

/// What a number is multiplied by; None if that would change its meaning.
fn factor(from: Option<Logical>, to: Option<Logical>) -> Option<i64> {
    let (Some(from), Some(to)) = (from, to) else { return Some(1) };
    match (from, to) {
        (Logical::Time(from), Logical::Time(to))
        | (Logical::Timestamp(from), Logical::Timestamp(to))
        | (Logical::LocalTimestamp(from), Logical::LocalTimestamp(to)) => {
            let factor = per_second(to) / per_second(from);
            Some(factor).filter(|factor| *factor > 0)
        }
        (Logical::Decimal(_, scale), Logical::Decimal(_, other)) if scale == other => Some(1),
        (from, to) => Some(1).filter(|_| from == to),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn name(kind: &Kind) -> Option<&Name> {
    match kind {
        Kind::Record(name, _) | Kind::Enum(name, ..) | Kind::Fixed(name, _) => Some(name),
        _ => None,
    }
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn shown(kind: &Kind, logical: Option<Logical>) -> String {
    let kind = match kind {
        Kind::Null => "null",
        Kind::Boolean => "boolean",
        Kind::Int => "int",
        Kind::Long => "long",
        Kind::Float => "float",
        Kind::Double => "double",
        Kind::Bytes => "bytes",
        Kind::String => "string",
        Kind::Fixed(_, size) => return format!("fixed of {size} bytes"),
        Kind::Enum(..) => "enum",
        Kind::Array(_) => "array",
        Kind::Map(_) => "map",
        Kind::Union(_) => "union",
        Kind::Record(..) => "record",
    };
    logical.map_or(kind.to_owned(), |logical| format!("{kind} ({logical})"))
}

/// Writes a default as Avro; None if it is not of its type.
fn encode(schema: &Schema, index: usize, value: &Value, bytes: &mut Vec<u8>) -> Option<()> {
    match &schema.nodes[index].kind {
        Kind::Null => value.as_null()?,
        Kind::Boolean => bytes.push(u8::from(value.as_bool()?)),
        Kind::Int => put_long(i64::from(i32::try_from(value.as_i64()?).ok()?), bytes),
        Kind::Long => put_long(value.as_i64()?, bytes),
        Kind::Float => bytes.extend((value.as_f64()? as f32).to_le_bytes()),
        Kind::Double => bytes.extend(value.as_f64()?.to_le_bytes()),
        Kind::String => put_bytes(value.as_str()?.as_bytes(), bytes),
        Kind::Bytes => put_bytes(&latin1(value.as_str()?)?, bytes),
        Kind::Fixed(_, size) => {
            bytes.extend(Some(latin1(value.as_str()?)?).filter(|each| each.len() == *size)?);
        }
        Kind::Enum(_, symbols, _) => {
            let symbol = value.as_str()?;
            put_long(symbols.iter().position(|each| each == symbol)? as i64, bytes);
        }
        Kind::Array(items) => {
            for item in value.as_array()? {
                put_long(1, bytes);
                encode(schema, *items, item, bytes)?;
            }
            put_long(0, bytes);
        }
        Kind::Map(values) => {
            for (key, item) in value.as_object()? {
                put_long(1, bytes);
                put_bytes(key.as_bytes(), bytes);
                encode(schema, *values, item, bytes)?;
            }
            put_long(0, bytes);
        }
        Kind::Union(branches) => {
            let length = bytes.len();
            for (number, branch) in branches.iter().enumerate() {
                put_long(number as i64, bytes);
                if encode(schema, *branch, value, bytes).is_some() {
                    return Some(());
                }
                bytes.truncate(length);
            }
            return None;
        }
        Kind::Record(_, fields) => {
            let object = value.as_object()?;
            for field in fields {
                let value = object.get(&field.name).or(field.default.as_ref())?;
                encode(schema, field.schema, value, bytes)?;
            }
        }
    }
    Some(())
}

fn put_long(number: i64, bytes: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn put_bytes(value: &[u8], bytes: &mut Vec<u8>) {
    put_long(value.len() as i64, bytes);
    bytes.extend(value);
}

/// Bytes in JSON are the characters of the same numbers.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|each| u8::try_from(u32::from(each)).ok()).collect()
}
