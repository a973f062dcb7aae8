//! The type that JSON documents have in common.

use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use serde_json::Value;

use crate::arrow::MOST_DEEP;
use crate::decode::column::shown;
use crate::decode::input::Input;

/// Names that are data, such as ids, would become columns that each document has.
const MAX_FIELDS: usize = 10_000;

/// Returns the type of the first documents; what is no JSON, or null, tells nothing.
///
/// Integers and floats have float64 in common. Other types have nothing in common: an error.
pub fn data_type(input: &Input, samples: usize) -> Result<DataType, String> {
    let (mut common, mut fields) = (Kind::Null, 0);
    let present = (0..input.len()).filter_map(|row| input.get(row));
    let documents = present.filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    for document in documents.take(samples) {
        common
            .add(&document, 1, &mut fields)
            .map_err(|(place, why)| format!("${place} {why}: give a schema"))?;
    }
    Ok(common.data_type())
}

/// A type that grows with each value.
enum Kind {
    Null,
    Boolean,
    Integer,
    Float,
    Text,
    List(Box<Kind>),
    Object(Object),
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
    fn add(&mut self, value: &Value, depth: usize, fields: &mut usize) -> Result<(), Wrong> {
        let found = match value {
            Value::Null => return Ok(()),
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) if number.is_i64() => Kind::Integer,
            Value::Number(_) => Kind::Float,
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::List(Box::new(Kind::Null)),
            Value::Object(_) => Kind::Object(Object::default()),
        };
        // The items of an array are below it, even if there are none.
        if depth + usize::from(value.is_array()) > MOST_DEEP {
            return Err((String::new(), format!("is nested more than {MOST_DEEP} deep")));
        }
        match (&*self, &found) {
            (Kind::Null, _) | (Kind::Integer, Kind::Float) => *self = found,
            (Kind::Float, Kind::Integer) => {}
            (known, found) if discriminant(known) == discriminant(found) => {}
            (known, found) => {
                let (known, found) = (shown(&known.data_type()), shown(&found.data_type()));
                let why = format!("is {known} in some documents and {found} in others");
                return Err((String::new(), why));
            }
        }
        match (self, value) {
            (Kind::List(item), Value::Array(items)) => {
                let below = |(place, why)| (format!("[]{place}"), why);
                items.iter().try_for_each(|each| item.add(each, depth + 1, fields).map_err(below))
            }
            (Kind::Object(object), Value::Object(entries)) => {
                entries.iter().try_for_each(|(name, value)| {
                    object
                        .field(name, fields)
                        .and_then(|field| field.add(value, depth + 1, fields))
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
            Kind::Integer => DataType::Int64,
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
