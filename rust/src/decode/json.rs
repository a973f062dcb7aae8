//! JSON documents by a schema: each is checked whole, and nothing is converted that would change.

use std::{fmt, str};

use arrow_schema::DataType;
use base64ct::{Base64, Encoding};
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;

use crate::decode::cells::Cells;
use crate::decode::column::{Column, Struct, Values, shown};
use crate::decode::{Decode, Format, scalars};

/// From here on, a float may have been another integer.
const INEXACT: f64 = 9_007_199_254_740_992.0;

pub struct Json(DataType);

impl Json {
    /// For a type that `column::check` has accepted.
    pub fn new(data_type: DataType) -> Self {
        Json(data_type)
    }
}

impl Format for Json {
    fn data_type(&self) -> DataType {
        self.0.clone()
    }

    fn decoder(&self) -> Box<dyn Decode + '_> {
        Box::new(self)
    }
}

impl Decode for &Json {
    fn read(&mut self, _: Option<&[u8]>, bytes: &[u8], column: &mut Column) -> Result<(), String> {
        // Of the whole document: strings that are ignored are not looked at again.
        let text = str::from_utf8(bytes)
            .map_err(|error| format!("invalid unicode after {} bytes", error.valid_up_to()))?;
        let mut document = serde_json::Deserializer::from_str(text);
        let value = Value { column, cells: &Cells::of(bytes) };
        let read = value.deserialize(&mut document).and_then(|()| document.end());
        read.map_err(|error| match error.is_data() {
            true => format!("${}: {error}", column.place()),
            false => error.to_string(),
        })
    }
}

/// Reads a value of the document into a column.
struct Value<'a> {
    column: &'a mut Column,
    cells: &'a Cells,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Values::Decimal(values, precision, scale) = &mut self.column.values else {
            return deserializer.deserialize_any(self);
        };
        // The text of the number: as a float it would be another.
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw == "null" {
            return self.visit_unit();
        }
        let number = scalars::decimal(raw.trim_matches('"'), *precision, *scale);
        values.push(number.ok_or_else(|| {
            D::Error::custom(format!("{raw} is no decimal({precision}, {scale})"))
        })?);
        self.column.added();
        Ok(())
    }
}

/// An integer of JSON, before its range is checked.
trait Whole:
    Copy
    + fmt::Display
    + TryInto<i8>
    + TryInto<i16>
    + TryInto<i32>
    + TryInto<i64>
    + TryInto<u8>
    + TryInto<u16>
    + TryInto<u32>
    + TryInto<u64>
{
}

impl Whole for i64 {}
impl Whole for u64 {}

impl Column {
    /// Append a number without a fraction, which a column of floats takes as one.
    fn push_whole<T: Whole, E: Error>(
        &mut self,
        number: T,
        single: f32,
        double: f64,
    ) -> Result<(), E> {
        match &mut self.values {
            Values::F32(values) => values.push(single),
            Values::F64(values) => values.push(double),
            _ => return self.push_integer(number),
        }
        self.added();
        Ok(())
    }

    fn push_integer<T: Whole, E: Error>(&mut self, number: T) -> Result<(), E> {
        let data_type = self.field.data_type();
        let beyond = || E::custom(format!("{number} is out of the range of {}", shown(data_type)));
        match &mut self.values {
            Values::I8(values) => values.push(number.try_into().map_err(|_| beyond())?),
            Values::I16(values) => values.push(number.try_into().map_err(|_| beyond())?),
            Values::I32(values) | Values::Date(values) => {
                values.push(number.try_into().map_err(|_| beyond())?);
            }
            Values::I64(values) | Values::Timestamp(values, _) => {
                values.push(number.try_into().map_err(|_| beyond())?);
            }
            Values::U8(values) => values.push(number.try_into().map_err(|_| beyond())?),
            Values::U16(values) => values.push(number.try_into().map_err(|_| beyond())?),
            Values::U32(values) => values.push(number.try_into().map_err(|_| beyond())?),
            Values::U64(values) => values.push(number.try_into().map_err(|_| beyond())?),
            _ => return Err(E::custom(format!("expected {}, got {number}", shown(data_type)))),
        }
        self.added();
        Ok(())
    }

    fn unexpected<E: Error>(&self, found: Unexpected<'_>) -> E {
        E::invalid_type(found, &self)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&shown(self.field.data_type()))
    }
}

impl serde::de::Expected for &Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.column, formatter)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if !self.column.field.is_nullable() {
            return Err(E::custom("null, but the schema does not allow it"));
        }
        self.cells.take(self.column.width).map_err(E::custom)?;
        self.column.push_null();
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        let Values::Boolean(values) = &mut self.column.values else {
            return Err(self.column.unexpected(Unexpected::Bool(value)));
        };
        values.append(value);
        self.column.added();
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.column.push_whole(number, number as f32, number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.column.push_whole(number, number as f32, number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match &mut self.column.values {
            Values::F32(values) if number.abs() <= f64::from(f32::MAX) => {
                values.push(number as f32);
            }
            Values::F64(values) => values.push(number),
            // 2.0 and 1e3 are integers for JSON.
            _ if number.fract() == 0.0 && number.abs() < INEXACT => {
                return self.column.push_integer(number as i64);
            }
            _ => return Err(self.column.unexpected(Unexpected::Float(number))),
        }
        self.column.added();
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match &mut self.column.values {
            Values::Text(bytes) => bytes.push(text.as_bytes()).map_err(E::custom)?,
            Values::LargeText(bytes) => bytes.push(text.as_bytes()).map_err(E::custom)?,
            Values::Binary(bytes) => bytes.push(&from_base64(text)?).map_err(E::custom)?,
            Values::LargeBinary(bytes) => bytes.push(&from_base64(text)?).map_err(E::custom)?,
            Values::Date(values) => values.push(
                scalars::date(text)
                    .ok_or_else(|| E::custom(format!("{text:?} is no date: write 2026-05-01")))?,
            ),
            Values::Timestamp(values, unit) => {
                values.push(scalars::timestamp(text, *unit).ok_or_else(|| {
                    E::custom(format!(
                        "{text:?} is no timestamp in range, or finer than its unit: write \
                         2026-05-01T12:00:00Z"
                    ))
                })?);
            }
            _ => return Err(self.column.unexpected(Unexpected::Str(text))),
        }
        self.column.added();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let cells = self.cells;
        match &mut self.column.values {
            Values::List(list) => {
                list.reading = true;
                while items.next_element_seed(Value { column: &mut list.item, cells })?.is_some() {}
                list.push().map_err(A::Error::custom)?;
            }
            Values::LargeList(list) => {
                list.reading = true;
                while items.next_element_seed(Value { column: &mut list.item, cells })?.is_some() {}
                list.push().map_err(A::Error::custom)?;
            }
            _ => return Err(self.column.unexpected(Unexpected::Seq)),
        }
        self.column.added();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (row, cells) = (self.column.len(), self.cells);
        match &mut self.column.values {
            Values::Struct(fields) => {
                let (mut next, mut found) = (0, 0);
                while let Some(index) =
                    entries.next_key_seed(Name { of: &*fields, likely: next })?
                {
                    let Some(index) = index else {
                        entries.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    fields.current = Some(index);
                    let field = &mut fields.fields[index];
                    if field.len() > row {
                        return Err(A::Error::custom("the field is in the object twice"));
                    }
                    entries.next_value_seed(Value { column: field, cells })?;
                    fields.current = None;
                    next = index + 1;
                    found += 1;
                }
                if found < fields.fields.len() {
                    for (index, field) in fields.fields.iter_mut().enumerate() {
                        if field.len() > row {
                            continue;
                        }
                        if !field.field.is_nullable() {
                            fields.current = Some(index);
                            return Err(A::Error::custom("the field is missing"));
                        }
                        cells.take(field.width).map_err(A::Error::custom)?;
                        field.push_null();
                    }
                }
            }
            Values::Map(map) => {
                while entries.next_key_seed(Value { column: &mut map.keys, cells })?.is_some() {
                    entries.next_value_seed(Value { column: &mut map.items, cells })?;
                }
                map.push().map_err(A::Error::custom)?;
            }
            _ => return Err(self.column.unexpected(Unexpected::Map)),
        }
        self.column.added();
        Ok(())
    }
}

fn from_base64<E: Error>(text: &str) -> Result<Vec<u8>, E> {
    Base64::decode_vec(text).map_err(|_| E::custom(format!("{text:?} is not base64")))
}

/// Finds the field of a name: its index, None if there is none.
struct Name<'a> {
    of: &'a Struct,
    /// Documents mostly have the order of the schema.
    likely: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let likely = self.of.fields.get(self.likely);
        if likely.is_some_and(|field| field.field.name() == name) {
            return Ok(Some(self.likely));
        }
        Ok(self.of.numbered(name))
    }
}
