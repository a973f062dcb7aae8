//! JSON documents by a schema: each is checked whole, and nothing is converted that would change.

use std::cell::Cell;
use std::{fmt, str};

use arrow_schema::DataType;
use base64ct::{Base64, Encoding};
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;

use crate::cells::Cells;
use crate::column::{Column, Struct, Values, shown};
use crate::format::{Decode, Format};
use crate::framing::bare_json;
use crate::scalars;

/// Float64 has all digits of integers up to this one.
pub const EXACT: u64 = 1 << 53;
/// An integer from here on, or below its negative, is read as a float: 2^63.
pub const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
/// Of the largest integer of 128 bits.
const MAX_DIGITS: u8 = 38;
const BYTE_ORDER_MARK: char = '\u{feff}';

pub struct Json {
    data_type: DataType,
    /// Whether other documents have told the type.
    is_inferred: bool,
}

impl Json {
    /// For a type that `column::check` has accepted.
    pub fn new(data_type: DataType) -> Self {
        Json { data_type, is_inferred: false }
    }

    /// For a type that documents have told: float64 takes no integer whose digits it lacks.
    pub fn inferred(data_type: DataType) -> Self {
        Json { data_type, is_inferred: true }
    }
}

/// The text of a document. The id of a schema may come before it, and a byte order mark, which
/// serializers of .NET write.
pub fn text(bytes: &[u8]) -> Result<&str, String> {
    let text = str::from_utf8(bare_json(bytes)?)
        .map_err(|error| format!("invalid unicode after {} bytes", error.valid_up_to()))?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text))
}

impl Format for Json {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn decoder(&self) -> Box<dyn Decode + '_> {
        Box::new(self)
    }
}

impl Decode for &Json {
    fn read(&mut self, _: Option<&[u8]>, bytes: &[u8], column: &mut Column) -> Result<(), String> {
        // Of the whole document: strings that are ignored are not looked at again.
        let text = text(bytes)?;
        let row = column.len();
        let mut document = Document::of(bytes, self.is_inferred);
        let mut read = document.read(text, column);
        if read.is_err() && document.needs_digits.get() {
            column.truncate(row);
            document = Document { has_digits: true, ..Document::of(bytes, self.is_inferred) };
            read = document.read(text, column);
        }
        let Err(error) = read else { return Ok(()) };
        if self.data_type == DataType::Null {
            // Before a document has told the type, any would be wrong: what matters is whether it is JSON.
            serde_json::from_str::<serde_json::Value>(text).map_err(|error| error.to_string())?;
        }
        Err(match error.is_data() {
            true => format!("${}: {error}", column.place()),
            false => error.to_string(),
        })
    }
}

/// What all values of a document share.
struct Document {
    cells: Cells,
    is_inferred: bool,
    /// Whether numbers are read from their text, where a float may have lost digits.
    has_digits: bool,
    /// Whether that is needed. Most documents are read faster without it.
    needs_digits: Cell<bool>,
}

impl Document {
    fn of(bytes: &[u8], is_inferred: bool) -> Self {
        let needs_digits = Cell::new(false);
        Document { cells: Cells::of(bytes), is_inferred, has_digits: false, needs_digits }
    }

    fn read(&self, text: &str, column: &mut Column) -> Result<(), serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_str(text);
        Value { column, document: self }.deserialize(&mut parser).and_then(|()| parser.end())
    }
}

/// Reads a value of the document into a column.
struct Value<'a> {
    column: &'a mut Column,
    document: &'a Document,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if let Values::Decimal(values, precision, scale) = &mut self.column.values {
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
            return Ok(());
        }
        if !self.document.has_digits || !self.may_need_digits() {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let is_double = matches!(self.column.values, Values::F64(_));
        if is_number && is_double && !raw.contains(['.', 'e', 'E']) {
            let size = raw.trim_start_matches('-').parse().unwrap_or(u64::MAX);
            self.check_digits(raw, size)?;
        }
        if !is_number || is_double {
            let whole = serde_json::Deserializer::from_str(raw).deserialize_any(self);
            return whole.map_err(D::Error::custom);
        }
        if let Values::F32(values) = &mut self.column.values {
            let number = raw.parse::<f32>().ok().filter(|number| number.is_finite());
            values.push(number.ok_or_else(|| D::Error::custom(format!("{raw} is no float32")))?);
            self.column.added();
            return Ok(());
        }
        match scalars::decimal(raw, MAX_DIGITS, 0) {
            Some(number) => self.column.push_integer(number),
            None => {
                let wanted = shown(self.column.field.data_type());
                Err(D::Error::custom(format!("{raw} is no {wanted}")))
            }
        }
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
impl Whole for i128 {}

impl Column {
    /// Whether a float may have lost digits that matter: all of integers, the last digit of
    /// float32.
    fn may_need_digits(&self) -> bool {
        matches!(
            self.values,
            Values::I8(_)
                | Values::I16(_)
                | Values::I32(_)
                | Values::I64(_)
                | Values::U8(_)
                | Values::U16(_)
                | Values::U32(_)
                | Values::U64(_)
                | Values::F32(_)
                | Values::Date(_)
                | Values::Timestamp(..)
        )
    }

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

impl Value<'_> {
    /// Whether a float may have lost digits that matter. Of inferred float64 they are those of
    /// integers, as the type may be wrong.
    fn may_need_digits(&self) -> bool {
        let is_double = matches!(self.column.values, Values::F64(_));
        is_double && self.document.is_inferred || self.column.may_need_digits()
    }

    /// Check that an inferred type keeps the digits of an integer.
    fn check_digits<E: Error>(&self, number: impl fmt::Display, size: u64) -> Result<(), E> {
        let is_float = matches!(self.column.values, Values::F64(_));
        if self.document.is_inferred && is_float && size > EXACT {
            let why = format!("{number} is an integer beyond 2^53 among fractions: give a schema");
            return Err(E::custom(why));
        }
        Ok(())
    }
}

/// Whether the number of a document may become another float32 from its float64: halfway between
/// two, or where float32 has fewer digits or none.
fn is_rounded_twice(number: f64) -> bool {
    const BELOW: u64 = f64::MANTISSA_DIGITS as u64 - f32::MANTISSA_DIGITS as u64;
    let is_halfway = number.to_bits() & ((1 << BELOW) - 1) == 1 << (BELOW - 1);
    let size = number.abs();
    is_halfway
        || size != 0.0 && !(f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&size)
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
        self.document.cells.take(self.column.width).map_err(E::custom)?;
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
        self.check_digits(number, number.unsigned_abs())?;
        self.column.push_whole(number, number as f32, number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.check_digits(number, number)?;
        self.column.push_whole(number, number as f32, number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        let document = self.document;
        // Of this size, the text may be that of an integer.
        let is_float = number.abs() < TOO_LARGE || !document.is_inferred || document.has_digits;
        match &mut self.column.values {
            Values::F32(values) if !is_rounded_twice(number) => values.push(number as f32),
            Values::F64(values) if is_float => values.push(number),
            _ => {
                // 2.0 and 1e3 are integers for JSON, and 1.00000000000000000000001 is none.
                document.needs_digits.set(self.may_need_digits());
                return Err(self.column.unexpected(Unexpected::Float(number)));
            }
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
        let document = self.document;
        match &mut self.column.values {
            Values::List(list) => {
                list.reading = true;
                while items.next_element_seed(Value { column: &mut list.item, document })?.is_some()
                {
                }
                list.push().map_err(A::Error::custom)?;
            }
            Values::LargeList(list) => {
                list.reading = true;
                while items.next_element_seed(Value { column: &mut list.item, document })?.is_some()
                {
                }
                list.push().map_err(A::Error::custom)?;
            }
            _ => return Err(self.column.unexpected(Unexpected::Seq)),
        }
        self.column.added();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (row, document) = (self.column.len(), self.document);
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
                    entries.next_value_seed(Value { column: field, document })?;
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
                        document.cells.take(field.width).map_err(A::Error::custom)?;
                        field.push_null();
                    }
                }
            }
            Values::Map(map) => {
                while entries.next_key_seed(Value { column: &mut map.keys, document })?.is_some() {
                    entries.next_value_seed(Value { column: &mut map.items, document })?;
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
