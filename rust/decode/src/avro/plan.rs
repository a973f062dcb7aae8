//! How values of a writer's schema become those of a reader's: schema resolution.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};
use std::rc::Rc;
use std::sync::Arc;

use arrow_schema::TimeUnit;
use serde_json::Value;

use crate::avro::schema::{Field, Kind, Logical, Name, Schema};
use crate::limits::below;

/// Unions within unions are tried in all combinations.
const MAX_STEPS: usize = 200_000;
/// A default is encoded for each field of its type: so many bytes count as a step.
const BYTES_PER_STEP: usize = 64;
/// So many symbols, or fields that are skipped, count as a step: a type may be used many times.
const PARTS_PER_STEP: usize = 8;
/// So many fields that are skipped have their places in a list.
const MOST_NAMED: usize = 20;
const DAY_SECONDS: i64 = 86_400;

/// Reads a type of the writer into a column of the reader.
pub enum Step {
    Null,
    Boolean,
    /// A number, times a factor.
    Number(Wire, i64),
    /// The same, as a time of a day of so many units.
    Time(Wire, i64, i64),
    Bytes,
    Fixed(usize),
    /// The symbols, or why one has no place.
    Enum(Vec<Result<Arc<str>, String>>),
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

impl Step {
    /// Adds the places of the writer's fields that the reader does not have, up to `MOST_NAMED`.
    pub fn left_out(&self, schema: &Schema, index: usize, place: &str, found: &mut Vec<String>) {
        match (self, &schema.nodes[index].kind) {
            _ if found.len() == MOST_NAMED => {}
            (Step::Member(_, step), _) => step.left_out(schema, index, place, found),
            (Step::Union(steps), Kind::Union(branches)) => {
                for (step, branch) in steps.iter().zip(branches) {
                    step.iter().for_each(|step| step.left_out(schema, *branch, place, found));
                }
            }
            (Step::List(step), Kind::Array(inner)) | (Step::Map(step), Kind::Map(inner)) => {
                step.left_out(schema, *inner, place, found);
            }
            (Step::Record(parts), Kind::Record(_, fields)) => {
                // Parts of further fields, which have defaults, come after those of the writer.
                for (part, field) in parts.iter().zip(fields) {
                    let dot = if place.is_empty() { "" } else { "." };
                    let at = below(place, &format!("{dot}{}", field.name));
                    match part {
                        Part::Read(_, step) => step.left_out(schema, field.schema, &at, found),
                        Part::Skip(_) if found.len() < MOST_NAMED => found.push(at),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the step for all of a value, or why the schemas do not fit.
pub fn resolve(writer: &Schema, reader: &Schema) -> Result<Step, String> {
    let (left, unions) = (Cell::new(MAX_STEPS), RefCell::default());
    Resolver { writer, reader, left, unions }.step(writer.root, reader.root, "$")
}

struct Resolver<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    left: Cell<usize>,
    /// The reader's unions by their index.
    unions: RefCell<HashMap<usize, Rc<Branches<'a>>>>,
}

/// What a branch of the reader's union has in common with the writer's type; None: any.
#[derive(PartialEq, Eq, Hash)]
enum Common<'a> {
    Name(&'a str),
    Alias(&'a str),
    Short(&'a str),
    Logical(Option<Logical>),
    Kind,
}

/// The branches of a reader's union by what they have in common with a type. To compare each with
/// each takes minutes for two unions of ten thousand.
struct Branches<'a> {
    all: Vec<usize>,
    found: HashMap<(Discriminant<Kind>, Common<'a>), Vec<usize>>,
    /// The index of each among those that are not null.
    members: HashMap<usize, usize>,
    is_struct: bool,
}

impl<'a> Branches<'a> {
    fn new(schema: &'a Schema, branches: &'a [usize]) -> Self {
        let mut found: HashMap<_, Vec<usize>> = HashMap::new();
        for branch in branches {
            let node = &schema.nodes[*branch];
            let mut note = |common| {
                found.entry((discriminant(&node.kind), common)).or_default().push(*branch);
            };
            note(Common::Kind);
            if let Some(Name { name, aliases }) = name(&node.kind) {
                note(Common::Name(name));
                note(Common::Short(short(name)));
                aliases.iter().for_each(|alias| note(Common::Alias(alias)));
            } else {
                note(Common::Logical(node.logical));
            }
        }
        let members = schema.members(branches);
        let is_struct = members.len() > 1 && !schema.is_number(&members);
        let mut places = HashMap::new();
        for (place, member) in members.into_iter().enumerate() {
            places.entry(member).or_insert(place);
        }
        Branches { all: branches.to_vec(), found, members: places, is_struct }
    }

    /// All branches, the nearest to a type first.
    fn ranked<'b>(
        &'b self,
        kind: &'b Kind,
        logical: Option<Logical>,
    ) -> impl Iterator<Item = usize> {
        let nearest = match name(kind) {
            Some(Name { name, .. }) => {
                vec![Common::Name(name), Common::Alias(name), Common::Short(short(name))]
            }
            None => vec![Common::Logical(logical)],
        };
        let nearest = nearest.into_iter().chain([Common::Kind]);
        let nearest =
            nearest.filter_map(move |common| self.found.get(&(discriminant(kind), common)));
        let mut seen = HashSet::new();
        nearest.chain([&self.all]).flatten().copied().filter(move |branch| seen.insert(*branch))
    }
}

impl<'a> Resolver<'a> {
    fn step(&self, from: usize, to: usize, place: &str) -> Result<Step, String> {
        self.take(1)?;
        let (source, target) = (&self.writer.nodes[from], &self.reader.nodes[to]);
        if let Kind::Union(branches) = &source.kind {
            let steps: Vec<_> = branches.iter().map(|each| self.step(*each, to, place)).collect();
            return match steps.iter().find_map(|step| step.as_ref().err()) {
                Some(reason) if steps.iter().all(Result::is_err) => Err(reason.clone()),
                _ => Ok(Step::Union(steps)),
            };
        }
        if let Kind::Union(branches) = &target.kind {
            let mut unions = self.unions.borrow_mut();
            let made =
                unions.entry(to).or_insert_with(|| Rc::new(Branches::new(self.reader, branches)));
            let made = Rc::clone(made);
            drop(unions);
            return self.union(from, &made, place);
        }
        let mismatch = || {
            format!(
                "{place}: the writer has {}, which is no {}",
                shown(&source.kind, source.logical),
                shown(&target.kind, target.logical)
            )
        };
        let factor = factor(source.logical, target.logical).ok_or_else(mismatch)?;
        let whole = |wire| match target.logical {
            Some(Logical::Time(unit)) => Step::Time(wire, factor, DAY_SECONDS * per_second(unit)),
            _ => Step::Number(wire, factor),
        };
        Ok(match (&source.kind, &target.kind) {
            (Kind::Null, Kind::Null) => Step::Null,
            (Kind::Boolean, Kind::Boolean) => Step::Boolean,
            (Kind::Int, Kind::Int | Kind::Long | Kind::Float | Kind::Double) => whole(Wire::Int),
            (Kind::Long, Kind::Long | Kind::Float | Kind::Double) => whole(Wire::Long),
            (Kind::Float, Kind::Float | Kind::Double) => Step::Number(Wire::Float, 1),
            (Kind::Double, Kind::Double) => Step::Number(Wire::Double, 1),
            (Kind::Bytes | Kind::String, Kind::Bytes | Kind::String) => Step::Bytes,
            (Kind::Fixed(_, size), Kind::Fixed(_, other)) if size == other => Step::Fixed(*size),
            (Kind::Enum(_, symbols, _), Kind::Enum(_, known, default)) => {
                self.take((symbols.len() + known.len()) / PARTS_PER_STEP)?;
                let known: HashSet<_> = known.iter().collect();
                let default = default.as_deref().map(Arc::from);
                let step = |symbol: &String| {
                    let found = known.get(symbol).map(|symbol| Arc::from(symbol.as_str()));
                    found.or(default.clone()).ok_or_else(|| {
                        format!("the reader's enum lacks the symbol {symbol:?} and has no default")
                    })
                };
                Step::Enum(symbols.iter().map(step).collect())
            }
            (Kind::Array(items), Kind::Array(wanted)) => {
                Step::List(Box::new(self.step(*items, *wanted, &below(place, "[]"))?))
            }
            (Kind::Map(values), Kind::Map(wanted)) => {
                Step::Map(Box::new(self.step(*values, *wanted, &below(place, ".*"))?))
            }
            (Kind::Record(_, fields), Kind::Record(_, wanted)) => {
                self.record(fields, wanted, place)?
            }
            _ => return Err(mismatch()),
        })
    }

    fn union(&self, from: usize, branches: &Branches<'a>, place: &str) -> Result<Step, String> {
        let source = &self.writer.nodes[from];
        let mut reason = None;
        for branch in branches.ranked(&source.kind, source.logical) {
            match self.step(from, branch, place) {
                Ok(step) => {
                    let member = branches.members.get(&branch).filter(|_| branches.is_struct);
                    return Ok(match member {
                        Some(index) => Step::Member(*index, Box::new(step)),
                        None => step,
                    });
                }
                Err(told) => reason = reason.or(Some(told)),
            }
            // Further steps fail for that alone.
            if self.left.get() == 0 {
                break;
            }
        }
        Err(reason.unwrap_or_else(|| format!("{place}: the reader's union is empty")))
    }

    fn record(&self, fields: &[Field], wanted: &[Field], place: &str) -> Result<Step, String> {
        self.take(fields.len() / PARTS_PER_STEP)?;
        let named: HashMap<_, _> =
            fields.iter().map(|field| field.name.as_str()).zip(0..).collect();
        let mut columns = vec![None; fields.len()];
        let mut sources = vec![None; wanted.len()];
        let mut read = |column: usize, index: Option<&usize>| {
            if let Some(index) = index.filter(|index| columns[**index].is_none()) {
                (columns[*index], sources[column]) = (Some(column), Some(*index));
            }
        };
        // Aliases go before names: by the specification, they rename the writer's fields, and a new
        // field may have the old name.
        for (column, field) in wanted.iter().enumerate() {
            if !named.contains_key(field.name.as_str()) {
                let found = field.aliases.iter().filter_map(|alias| named.get(alias.as_str()));
                read(column, found.min());
            }
        }
        for (column, field) in wanted.iter().enumerate() {
            read(column, named.get(field.name.as_str()));
        }
        let mut parts = Vec::with_capacity(fields.len());
        for (field, column) in fields.iter().zip(&columns) {
            parts.push(match column {
                Some(column) => {
                    let wanted = &wanted[*column];
                    let place = below(place, &format!(".{}", wanted.name));
                    Part::Read(*column, self.step(field.schema, wanted.schema, &place)?)
                }
                None => Part::Skip(field.schema),
            });
        }
        for (column, field) in wanted.iter().enumerate() {
            if sources[column].is_some() {
                continue;
            }
            let place = below(place, &format!(".{}", field.name));
            let default = field.default.as_ref().ok_or_else(|| {
                format!("{place}: the writer does not have the field, and it has no default")
            })?;
            let mut bytes = Vec::new();
            if self.encode(field.schema, default, &mut bytes).is_none() {
                self.take(1)?; // it may have no type because of that
                return Err(format!("{place}: the default {default} is not of its type"));
            }
            let itself = Resolver {
                writer: self.reader,
                reader: self.reader,
                left: self.left.clone(),
                unions: RefCell::default(),
            };
            let step = itself.step(field.schema, field.schema, &place)?;
            self.left.set(itself.left.get());
            parts.push(Part::Default(column, step, bytes));
        }
        Ok(Step::Record(parts))
    }

    /// Counts steps; after an error, there are none left.
    fn take(&self, steps: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| "the schemas are too large".to_owned())
    }

    /// Writes a default as Avro; None if it is not of its type, or too many steps were taken.
    fn encode(&self, index: usize, value: &Value, bytes: &mut Vec<u8>) -> Option<()> {
        let length = bytes.len();
        self.take(1).ok()?;
        match &self.reader.nodes[index].kind {
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
                    self.encode(*items, item, bytes)?;
                }
                put_long(0, bytes);
            }
            Kind::Map(values) => {
                for (key, item) in value.as_object()? {
                    put_long(1, bytes);
                    put_bytes(key.as_bytes(), bytes);
                    self.encode(*values, item, bytes)?;
                }
                put_long(0, bytes);
            }
            Kind::Union(branches) => {
                for (number, branch) in branches.iter().enumerate() {
                    put_long(number as i64, bytes);
                    if self.encode(*branch, value, bytes).is_some() {
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
                    self.encode(field.schema, value, bytes)?;
                }
            }
        }
        self.take((bytes.len() - length) / BYTES_PER_STEP).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(name: &str, rest: &str) -> String {
        format!(r#"{{"type": "fixed", "name": "{name}", "size": 4{rest}}}"#)
    }

    #[test]
    fn the_nearest_branch_comes_first_and_each_once() {
        let branches =
            [r#""int""#, &fixed("q.F", ""), &fixed("G", r#", "aliases": ["F"]"#), &fixed("F", "")];
        let schema = Schema::parse(&[format!("[{}]", branches.join(", "))]).unwrap();
        let Kind::Union(all) = &schema.nodes[schema.root].kind else { panic!("a union") };
        let made = Branches::new(&schema, all);
        let writer = Schema::parse(&[fixed("F", "")]).unwrap();
        let node = &writer.nodes[writer.root];
        let ranked: Vec<_> = made.ranked(&node.kind, node.logical).collect();
        assert_eq!(ranked, [all[3], all[2], all[1], all[0]]);
    }

    #[test]
    fn types_that_are_used_many_times_are_bounded() {
        let symbols: Vec<_> = (0..20_000).map(|number| format!(r#""S{number}""#)).collect();
        let symbols = symbols.join(",");
        let ints: Vec<_> =
            (0..20_000).map(|number| format!(r#"{{"name":"i{number}","type":"int"}}"#)).collect();
        let types = [
            (format!(r#"{{"type":"enum","name":"T","symbols":[{symbols}]}}"#), None),
            (
                format!(r#"{{"type":"record","name":"T","fields":[{}]}}"#, ints.join(",")),
                Some(r#"{"type":"record","name":"T","fields":[]}"#.to_owned()),
            ),
        ];
        for (writer, reader) in types {
            let schema = |first: &str| {
                let others: Vec<_> =
                    (0..2_000).map(|each| format!(r#"{{"name":"f{each}","type":"T"}}"#)).collect();
                let others = others.join(",");
                let text = format!(
                    r#"{{"type":"record","name":"R","fields":[{{"name":"a","type":{first}}},{others}]}}"#
                );
                Schema::parse(&[text]).unwrap()
            };
            let reader = schema(reader.as_deref().unwrap_or(&writer));
            let told = resolve(&schema(&writer), &reader).err();
            assert_eq!(told.as_deref(), Some("the schemas are too large"));
        }
    }
}
