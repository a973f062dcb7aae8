//! Reads Avro into columns. The bytes come from anywhere: every length is checked.

use std::str;

use arrow_buffer::{IntervalMonthDayNano, i256};

use crate::avro::plan::{Part, Step, Wire};
use crate::avro::schema::{Kind, Schema};
use crate::cells::{BYTES_PER_CELL, Cells};
use crate::column::{Column, List, Values};

/// A writer's schema may refer to itself: what is skipped can be deeper than any schema.
const MAX_DEPTH: usize = 500;

/// What is left of a value.
pub struct Bytes<'a> {
    rest: &'a [u8],
    cells: &'a Cells,
}

type Read<T> = Result<T, String>;

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8], cells: &'a Cells) -> Self {
        Bytes { rest: bytes, cells }
    }

    /// Check that the value has ended.
    pub fn end(&self) -> Read<()> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(format!("bytes are left after the value: {count}")),
        }
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            format!("{count} bytes were to come, and there are {}", self.rest.len())
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn long(&mut self) -> Read<i64> {
        let mut number = 0_u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            if index == 9 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err(if self.rest.len() < 10 {
            "the value ends within a number".to_owned()
        } else {
            "a number has more than 64 bits".to_owned()
        })
    }

    fn int(&mut self) -> Read<i32> {
        let number = self.long()?;
        i32::try_from(number).map_err(|_| format!("{number} is out of the range of int"))
    }

    fn boolean(&mut self) -> Read<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("{other} is no boolean")),
        }
    }

    fn length(&mut self) -> Read<usize> {
        let length = self.long()?;
        usize::try_from(length).map_err(|_| format!("the length {length} is negative"))
    }

    fn sized(&mut self) -> Read<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn index(&mut self, count: usize, what: &str) -> Read<usize> {
        let index = self.long()?;
        let found = usize::try_from(index).ok().filter(|index| *index < count);
        found.ok_or_else(|| format!("there is no {what} {index}"))
    }

    /// Call `each` for each item of an array or map, which has `width` values in Arrow at least. One
    /// may take no bytes, such as null, and then any number may be claimed.
    fn items(&mut self, width: usize, mut each: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                count = count.checked_neg().ok_or("the number of items is out of range")?;
                self.long()?; // the size of the block
            }
            for _ in 0..count {
                let before = self.rest.len();
                each(self)?;
                if self.rest.len() == before {
                    self.cells.take(width)?;
                }
            }
        }
    }

    /// Skip a type that the reader does not have. It is checked like any other, but for texts.
    fn skip(&mut self, schema: &Schema, index: usize, depth: usize) -> Read<()> {
        if depth == MAX_DEPTH {
            return Err(format!("the value is deeper than {MAX_DEPTH} levels"));
        }
        match &schema.nodes[index].kind {
            Kind::Null => {}
            Kind::Boolean => drop(self.boolean()?),
            Kind::Int => drop(self.int()?),
            Kind::Long => drop(self.long()?),
            Kind::Float => drop(self.take(4)?),
            Kind::Double => drop(self.take(8)?),
            Kind::Bytes | Kind::String => drop(self.sized()?),
            Kind::Fixed(_, size) => drop(self.take(*size)?),
            Kind::Enum(_, symbols, _) => drop(self.index(symbols.len(), "symbol")?),
            Kind::Array(items) => self.items(1, |bytes| bytes.skip(schema, *items, depth + 1))?,
            Kind::Map(values) => self.items(1, |bytes| {
                bytes.sized()?;
                bytes.skip(schema, *values, depth + 1)
            })?,
            Kind::Union(branches) => {
                let branch = self.index(branches.len(), "branch")?;
                self.skip(schema, branches[branch], depth + 1)?;
            }
            Kind::Record(_, fields) => {
                let before = self.rest.len();
                for field in fields {
                    self.skip(schema, field.schema, depth + 1)?;
                }
                if self.rest.len() == before {
                    self.cells.take(1)?;
                }
            }
        }
        Ok(())
    }
}

/// Append a value to a column. After an error, a part of it may be there.
pub fn read(step: &Step, writer: &Schema, column: &mut Column, bytes: &mut Bytes<'_>) -> Read<()> {
    match step {
        Step::Null => {
            bytes.cells.take(column.width)?;
            column.push_null();
            return Ok(());
        }
        Step::Union(branches) => {
            let branch = bytes.index(branches.len(), "branch")?;
            let step = branches[branch].as_ref().map_err(String::clone)?;
            return read(step, writer, column, bytes);
        }
        Step::Boolean => {
            if let Values::Boolean(values) = &mut column.values {
                values.append(bytes.boolean()?);
            }
        }
        Step::Number(wire, factor) => number(*wire, *factor, &mut column.values, bytes)?,
        Step::Time(wire, factor, day) => {
            number(*wire, *factor, &mut column.values, bytes)?;
            let time = match &column.values {
                Values::I32(values) => values.last().map(|time| i64::from(*time)),
                Values::I64(values) => values.last().copied(),
                _ => None,
            };
            if let Some(time) = time.filter(|time| !(0..*day).contains(time)) {
                return Err(format!("{time} is no time of a day, which has {day}"));
            }
        }
        Step::Bytes => put(&mut column.values, bytes.sized()?)?,
        Step::Fixed(size) => put(&mut column.values, bytes.take(*size)?)?,
        Step::Enum(symbols) => {
            let index = bytes.index(symbols.len(), "symbol")?;
            let symbol = symbols[index].as_ref().map_err(String::clone)?;
            put(&mut column.values, symbol.as_bytes())?;
        }
        Step::List(item) => {
            if let Values::List(list) = &mut column.values {
                let List { reading, item: items, .. } = list.as_mut();
                *reading = true;
                bytes.items(items.width, |bytes| read(item, writer, items, bytes))?;
                list.push()?;
            }
        }
        Step::Map(item) => {
            if let Values::Map(map) = &mut column.values {
                bytes.items(1, |bytes| {
                    put(&mut map.keys.values, bytes.sized()?)?;
                    map.keys.added();
                    read(item, writer, &mut map.items, bytes)
                })?;
                map.push_last()?;
            }
        }
        Step::Record(parts) => {
            if let Values::Struct(record) = &mut column.values {
                for part in parts {
                    match part {
                        Part::Read(index, step) => {
                            record.current = Some(*index);
                            read(step, writer, &mut record.fields[*index], bytes)?;
                        }
                        Part::Skip(schema) => {
                            record.current = None;
                            bytes.skip(writer, *schema, 0)?;
                        }
                        Part::Default(index, step, default) => {
                            record.current = Some(*index);
                            let field = &mut record.fields[*index];
                            bytes.cells.take(field.width + default.len() / BYTES_PER_CELL)?;
                            read(step, writer, field, &mut Bytes::new(default, bytes.cells))?;
                        }
                    }
                }
                record.current = None;
            }
        }
        Step::Member(chosen, step) => {
            if let Values::Struct(members) = &mut column.values {
                for (index, member) in members.fields.iter_mut().enumerate() {
                    if index != *chosen {
                        bytes.cells.take(member.width)?;
                        member.push_null();
                    }
                }
                members.current = Some(*chosen);
                read(step, writer, &mut members.fields[*chosen], bytes)?;
                members.current = None;
            }
        }
    }
    column.added();
    Ok(())
}

fn number(wire: Wire, factor: i64, values: &mut Values, bytes: &mut Bytes<'_>) -> Read<()> {
    let whole = match wire {
        Wire::Int => i64::from(bytes.int()?),
        Wire::Long => bytes.long()?,
        Wire::Float => {
            let number = f32::from_le_bytes(bytes.array()?);
            match values {
                Values::F32(values) => values.push(number),
                Values::F64(values) => values.push(f64::from(number)),
                _ => unreachable!("a float is no other number"),
            }
            return Ok(());
        }
        Wire::Double => {
            let Values::F64(values) = values else { unreachable!("a double is no other number") };
            values.push(f64::from_le_bytes(bytes.array()?));
            return Ok(());
        }
    };
    match values {
        // A long never becomes an int.
        Values::I32(values) | Values::Date(values) => values.push(whole as i32),
        Values::I64(values) | Values::Timestamp(values, _) => {
            let scaled = whole.checked_mul(factor);
            values.push(scaled.ok_or_else(|| format!("{whole} is out of range in a finer unit"))?);
        }
        Values::F32(values) => values.push(whole as f32),
        Values::F64(values) => values.push(whole as f64),
        _ => unreachable!("an integer is no other number"),
    }
    Ok(())
}

fn put(values: &mut Values, bytes: &[u8]) -> Read<()> {
    match values {
        Values::Text(texts) => {
            str::from_utf8(bytes).map_err(|error| error.to_string())?;
            texts.push(bytes)
        }
        Values::Binary(values) => values.push(bytes),
        Values::Fixed(values, _) => {
            values.extend_from_slice(bytes);
            Ok(())
        }
        Values::Decimal(values, precision, _) => {
            let number = integer(bytes).and_then(i256::to_i128);
            let limit = 10_u128.pow(u32::from(*precision));
            let number = number.filter(|number| number.unsigned_abs() < limit);
            values.push(number.ok_or_else(|| beyond(*precision))?);
            Ok(())
        }
        Values::Decimal256(values, precision) => {
            let limit = i256::from_i128(10).wrapping_pow(u32::from(*precision));
            let number = integer(bytes).filter(|number| *number < limit && *number > -limit);
            values.push(number.ok_or_else(|| beyond(*precision))?);
            Ok(())
        }
        Values::Interval(values) => {
            let part = |index: usize| {
                u32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().expect("4 bytes"))
            };
            let signed = |number: u32| {
                i32::try_from(number).map_err(|_| format!("the duration {number} is out of range"))
            };
            let (months, days) = (signed(part(0))?, signed(part(1))?);
            let nanos = i64::from(part(2)) * 1_000_000;
            values.push(IntervalMonthDayNano::new(months, days, nanos));
            Ok(())
        }
        _ => unreachable!("bytes are no other type"),
    }
}

fn beyond(precision: u8) -> String {
    format!("the decimal has more than {precision} digits")
}

/// A big-endian integer; None if it has more than 256 bits.
fn integer(bytes: &[u8]) -> Option<i256> {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
    let (extra, kept) = bytes.split_at(bytes.len().saturating_sub(32));
    if extra.iter().any(|byte| *byte != sign) {
        return None;
    }
    let mut whole = [sign; 32];
    whole[32 - kept.len()..].copy_from_slice(kept);
    let number = i256::from_be_bytes(whole);
    Some(number).filter(|number| (*number < i256::ZERO) == (sign != 0))
}
