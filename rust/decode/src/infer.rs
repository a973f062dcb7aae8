//! The type that JSON documents have in common.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::mem::discriminant;
use std::str;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use serde_json::Value;
use tandem_kafka_capsule::MOST_DEEP;

use crate::column::shown;
use crate::input::Input;
use crate::json::{EXACT, TOO_LARGE, text};

/// Names that are data, such as ids, would become columns that each document has.
const MAX_FIELDS: usize = 10_000;

/// Returns the type of the first documents; what is no JSON, or null, tells nothing.
///
/// Integers are int64, or uint64 if one needs it. Integers and floats have float64 in common, if it
/// has all digits of the integers. Other types have nothing in common: an error.
pub fn data_type(input: &Input, samples: usize) -> Result<DataType, String> {
    let (mut common, mut fields) = (Kind::Null, 0);
    let present = (0..input.len()).filter_map(|row| input.get(row));
    let documents = present.filter_map(|bytes| {
        let text = text(bytes).ok()?;
        Some((text, serde_json::from_str::<Value>(text).ok()?))
    });
    for (text, document) in documents.take(samples) {
        let mut seen = Seen { text, integers: OnceCell::new(), fields: &mut fields };
        common
            .add(&document, 1, &mut seen)
            .map_err(|(place, why)| format!("${place} {why}: give a schema"))?;
    }
    Ok(common.data_type())
}

/// A document, and how many fields all have.
struct Seen<'a> {
    text: &'a str,
    /// Of the document: integers that neither int64 nor uint64 has, as floats. They are looked for
    /// once, as any number may be so large.
    integers: OnceCell<HashSet<u64>>,
    fields: &'a mut usize,
}

impl Seen<'_> {
    /// Whether a number that was read as a float is an integer in the document.
    fn has_integer(&self, float: f64) -> bool {
        self.integers.get_or_init(|| large_integers(self.text)).contains(&float.to_bits())
    }
}

fn large_integers(text: &str) -> HashSet<u64> {
    let (mut in_string, mut is_escaped) = (false, false);
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let parts = text.as_bytes().split(|byte| {
        let was_in_string = in_string;
        in_string ^= *byte == b'"' && !is_escaped;
        is_escaped = was_in_string && *byte == b'\\' && !is_escaped;
        was_in_string || !is_part(*byte)
    });
    let integers = parts.filter(|part| !part.iter().any(|byte| b".eE".contains(byte)));
    let floats = integers.filter_map(|part| str::from_utf8(part).ok()?.parse::<f64>().ok());
    floats.filter(|float| float.abs() >= TOO_LARGE).map(f64::to_bits).collect()
}

/// A type that grows with each value.
enum Kind {
    Null,
    Boolean,
    Integer(Whole),
    Float,
    Text,
    List(Box<Kind>),
    Object(Object),
}

/// What integers have had.
#[derive(Clone, Copy)]
struct Whole {
    negative: bool,
    /// Some need uint64.
    unsigned: bool,
    /// Float64 may lack digits of some.
    inexact: bool,
}

/// Fields in the order in which they are first seen.
#[derive(Default)]
struct Object {
    fields: Vec<(String, Kind)>,
    numbers: HashMap<String, usize>,
}

/// The place below the value, and what is wrong there.
type Wrong = (String, String);

impl Kind {
    fn add(&mut self, value: &Value, depth: usize, seen: &mut Seen<'_>) -> Result<(), Wrong> {
        let wrong = |why: String| Err((String::new(), why));
        let found = match value {
            Value::Null => return Ok(()),
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (None, None, Some(float))
                    if float.abs() >= TOO_LARGE && seen.has_integer(float) =>
                {
                    return wrong("has integers outside int64 and uint64".to_owned());
                }
                (None, None, _) => Kind::Float,
                (signed, ..) => Kind::Integer(Whole {
                    negative: signed.is_some_and(|number| number < 0),
                    unsigned: signed.is_none(),
                    inexact: signed.is_none_or(|number| number.unsigned_abs() > EXACT),
                }),
            },
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::List(Box::new(Kind::Null)),
            Value::Object(_) => Kind::Object(Object::default()),
        };
        // The items of an array are below it, even if there are none.
        if depth + usize::from(value.is_array()) > MOST_DEEP {
            return wrong(format!("is nested more than {MOST_DEEP} deep"));
        }
        match (&mut *self, &found) {
            (Kind::Null, _) => *self = found,
            (Kind::Integer(Whole { inexact, .. }), Kind::Float) if !*inexact => *self = found,
            (Kind::Float, Kind::Integer(Whole { inexact, .. })) if !*inexact => {}
            (Kind::Integer(_), Kind::Float) | (Kind::Float, Kind::Integer(_)) => {
                return wrong("has fractions, and integers beyond 2^53".to_owned());
            }
            (Kind::Integer(known), Kind::Integer(found)) => {
                known.negative |= found.negative;
                known.unsigned |= found.unsigned;
                known.inexact |= found.inexact;
                if known.negative && known.unsigned {
                    return wrong("has negative integers, and integers of 2^63 or more".to_owned());
                }
            }
            (known, found) if discriminant(known) == discriminant(found) => {}
            (known, found) => {
                let (known, found) = (shown(&known.data_type()), shown(&found.data_type()));
                return wrong(format!("is both {known} and {found}"));
            }
        }
        match (self, value) {
            (Kind::List(item), Value::Array(items)) => {
                let below = |(place, why)| (format!("[]{place}"), why);
                items.iter().try_for_each(|each| item.add(each, depth + 1, seen).map_err(below))
            }
            (Kind::Object(object), Value::Object(entries)) => {
                entries.iter().try_for_each(|(name, value)| {
                    object
                        .field(name, seen.fields)
                        .and_then(|field| field.add(value, depth + 1, seen))
                        .map_err(|(place, why)| (format!(".{name}{place}"), why))
                })
            }
            _ => Ok(()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Kind::Null => DataType::Null,
            Kind::Boolean => DataType::Boolean,
            Kind::Integer(whole) if whole.unsigned => DataType::UInt64,
            Kind::Integer(_) => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Text => DataType::Utf8,
            Kind::List(item) => {
                DataType::List(Arc::new(Field::new_list_field(item.data_type(), true)))
            }
            Kind::Object(object) => {
                let fields = object.fields.iter();
                let fields = fields.map(|(name, kind)| Field::new(name, kind.data_type(), true));
                DataType::Struct(fields.collect::<Fields>())
            }
        }
    }
}

impl Object {
    fn field(&mut self, name: &str, count: &mut usize) -> Result<&mut Kind, Wrong> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if name.contains('\0') => {
                // Names cross to Python as C strings.
                return Err((String::new(), "has U+0000 in its name".to_owned()));
            }
            None if *count == MAX_FIELDS => {
                return Err((String::new(), format!("has more than {MAX_FIELDS} fields")));
            }
            None => {
                *count += 1;
                self.numbers.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), Kind::Null));
                self.fields.len() - 1
            }
        };
        Ok(&mut self.fields[number].1)
    }
}
