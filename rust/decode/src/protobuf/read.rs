//! Reads messages into columns.
//!
//! Fields come in any order, and again: the last scalar counts, and messages merge. So a row is open
//! until its message ends. A field has come if its column is longer than the row.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::str;

use arrow_schema::{DataType, TimeUnit};

use crate::cells::{BYTES_PER_CELL, Cells};
use crate::column::{Column, Map, Struct, Values};
use crate::protobuf::descriptor::{Absent, Kind, Message, Scalar, ZERO};
use crate::protobuf::wire::{Bytes, GROUP, Read, SIZED, VARINT, wrong};

/// From the year 1 to the year 9999, as the type says.
const TIMESTAMP_SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const DURATION_SECONDS: RangeInclusive<i64> = -315_576_000_000..=315_576_000_000;
const NANOS: RangeInclusive<i64> = -999_999_999..=999_999_999;

/// What is known of an open row, by the numbers of the maps and times of a message.
pub struct Open {
    /// Where the entries of a map are in the value.
    maps: Vec<Vec<(usize, usize)>>,
    /// Seconds and nanoseconds.
    times: Vec<(i64, i64)>,
    /// Messages that become JSON.
    dynamic: Vec<Vec<u8>>,
    cuts_times: bool,
}

impl Open {
    pub fn new(count: usize, cuts_times: bool) -> Self {
        let (maps, dynamic) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        Open { maps, times: vec![(0, 0); count], dynamic, cuts_times }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(u64),
    Text(&'a [u8]),
}

struct Reader<'a, 'b> {
    whole: &'a [u8],
    open: &'b mut Open,
    cells: Cells,
}

/// Append a message.
pub fn read(message: &Message, open: &mut Open, column: &mut Column, bytes: &[u8]) -> Read<()> {
    Reader { whole: bytes, open, cells: Cells::of(bytes) }.message(message, column, bytes)
}

impl<'a> Reader<'a, '_> {
    fn message(&mut self, message: &Message, column: &mut Column, bytes: &'a [u8]) -> Read<()> {
        let row = column.len();
        self.begin(message)?;
        if let Values::Struct(fields) = &mut column.values {
            self.merge(message, fields, row, bytes)?;
            self.close(message, fields, row)?;
        }
        column.added();
        Ok(())
    }

    fn begin(&mut self, message: &Message) -> Read<()> {
        self.cells.take(message.width)?;
        message.maps.iter().for_each(|map| self.open.maps[*map].clear());
        Ok(())
    }

    fn merge(
        &mut self,
        message: &Message,
        fields: &mut Struct,
        row: usize,
        bytes: &'a [u8],
    ) -> Read<()> {
        let mut bytes = Bytes(bytes);
        let mut next = 0;
        while !bytes.is_empty() {
            fields.current = None;
            let (number, wire) = bytes.tag()?;
            let Some(found) = message.find(number, next) else {
                bytes.skip(number, wire)?;
                continue;
            };
            next = found + 1;
            let index = message.numbers[found].1;
            let part = &message.parts[index];
            fields.current = Some(index);
            let is_packed = wire != part.wire
                && wire == SIZED
                && part.repeated
                && matches!(part.kind, Kind::Scalar(_));
            if wire != part.wire && !is_packed {
                return Err(wrong(wire, part.wire));
            }
            if !part.repeated {
                if part.kind.is_unknown(bytes.0) {
                    bytes.skip(number, wire)?;
                    continue;
                }
                for other in part.oneof.iter() {
                    if *other != index && fields.fields[*other].len() > row {
                        fields.fields[*other].truncate(row);
                    }
                }
                let column = &mut fields.fields[index];
                self.single(&part.kind, (number, wire), column, row, &mut bytes)?;
                continue;
            }
            match (&part.kind, &mut fields.fields[index].values) {
                (Kind::Map(map, ..), _) => {
                    let entry = bytes.sized()?;
                    let first = entry.as_ptr() as usize - self.whole.as_ptr() as usize;
                    self.open.maps[*map].push((first, first + entry.len()));
                }
                (kind, Values::List(list)) => {
                    list.reading = true;
                    match kind {
                        Kind::Scalar(scalar) if is_packed => {
                            let mut packed = Bytes(bytes.sized()?);
                            while !packed.is_empty() {
                                if kind.is_unknown(packed.0) {
                                    packed.varint()?;
                                } else {
                                    scalar.read(&mut list.item, &mut packed)?;
                                }
                            }
                        }
                        Kind::Message(message) => {
                            let inner = inner(&mut bytes, number, wire)?;
                            self.message(message, &mut list.item, inner)?;
                        }
                        _ if kind.is_unknown(bytes.0) => bytes.skip(number, wire)?,
                        _ => {
                            let row = list.item.len();
                            let item = &mut list.item;
                            self.single(kind, (number, wire), item, row, &mut bytes)?;
                        }
                    }
                    list.reading = false;
                }
                _ => unreachable!("a repeated field is a map or a list"),
            }
        }
        fields.current = None;
        Ok(())
    }

    /// Read a value into a row. A message stays open, because another one may be merged into it.
    fn single(
        &mut self,
        kind: &Kind,
        (number, wire): (u32, u32),
        column: &mut Column,
        row: usize,
        bytes: &mut Bytes<'a>,
    ) -> Read<()> {
        let has_come = column.len() > row;
        match kind {
            Kind::Scalar(scalar) => {
                if has_come {
                    column.truncate(row);
                }
                scalar.read(column, bytes)
            }
            Kind::Message(message) => {
                let inner = inner(bytes, number, wire)?;
                if !has_come {
                    self.begin(message)?;
                    column.added();
                }
                let Values::Struct(fields) = &mut column.values else {
                    unreachable!("a message is a struct")
                };
                self.merge(message, fields, row, inner)
            }
            Kind::Wrapper(scalar) => {
                let mut inner = Bytes(inner(bytes, number, wire)?);
                if !has_come {
                    scalar.read(column, &mut Bytes(ZERO))?;
                }
                while !inner.is_empty() {
                    match inner.tag()? {
                        (1, wire) if wire == scalar.wire() => {
                            column.truncate(row);
                            scalar.read(column, &mut inner)?;
                        }
                        (1, wire) => return Err(wrong(wire, scalar.wire())),
                        (other, wire) => inner.skip(other, wire)?,
                    }
                }
                Ok(())
            }
            Kind::Timestamp(time) | Kind::Duration(time) => {
                let mut inner = Bytes(inner(bytes, number, wire)?);
                let (mut seconds, mut nanos) = (0, 0);
                if has_come {
                    column.truncate(row);
                    (seconds, nanos) = self.open.times[*time];
                }
                while !inner.is_empty() {
                    match inner.tag()? {
                        (1, VARINT) => seconds = inner.varint()? as i64,
                        (2, VARINT) => nanos = i64::from(inner.varint()? as i32),
                        (1 | 2, wire) => return Err(wrong(wire, VARINT)),
                        (other, wire) => inner.skip(other, wire)?,
                    }
                }
                self.open.times[*time] = (seconds, nanos);
                let is_valid = match kind {
                    Kind::Duration(_) => {
                        DURATION_SECONDS.contains(&seconds)
                            && (seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0))
                    }
                    _ => TIMESTAMP_SECONDS.contains(&seconds) && nanos >= 0,
                };
                if !is_valid || !NANOS.contains(&nanos) {
                    return Err(format!("{seconds} s and {nanos} ns are out of range"));
                }
                if self.open.cuts_times {
                    nanos -= nanos % 1_000;
                }
                let number = in_unit(seconds, nanos, column.field.data_type())?;
                match &mut column.values {
                    Values::Timestamp(values, _) | Values::I64(values) => values.push(number),
                    _ => unreachable!("a time is a number"),
                }
                column.added();
                Ok(())
            }
            Kind::Dynamic(number_of, dynamic) => {
                let inner = inner(bytes, number, wire)?;
                let message = &mut self.open.dynamic[*number_of];
                if has_come {
                    column.truncate(row);
                } else {
                    message.clear();
                }
                message.extend_from_slice(inner);
                // It is written again for each part that comes.
                self.cells.take(message.len() / BYTES_PER_CELL)?;
                let Values::Text(texts) = &mut column.values else { unreachable!("JSON is text") };
                texts.push(&dynamic.text(message)?)?;
                column.added();
                Ok(())
            }
            Kind::Map(..) => unreachable!("a map is repeated"),
        }
    }

    /// Complete a row: the fields that have not come, and those that are open.
    fn close(&mut self, message: &Message, fields: &mut Struct, row: usize) -> Read<()> {
        for (index, part) in message.parts.iter().enumerate() {
            let column = &mut fields.fields[index];
            let has_come = column.len() > row;
            if has_come && !matches!(part.kind, Kind::Message(_)) {
                continue;
            }
            fields.current = Some(index);
            match (&part.kind, &mut column.values) {
                (Kind::Map(number, key, value), Values::Map(map)) => {
                    self.entries(*number, key, value, map)?;
                    column.added();
                }
                (_, Values::List(list)) => {
                    list.push()?;
                    column.added();
                }
                (Kind::Message(message), Values::Struct(inner)) if has_come => {
                    self.close(message, inner, row)?;
                }
                _ => {}
            }
            if column.len() > row {
                continue;
            }
            match (&part.absent, &part.kind) {
                (Absent::Default(default), Kind::Scalar(scalar)) => {
                    scalar.read(column, &mut Bytes(default))?;
                }
                (Absent::Wrong, _) => {
                    return Err("the field is required, and is missing".to_owned());
                }
                _ => column.push_null(),
            }
        }
        fields.current = None;
        Ok(())
    }

    /// Append the entries of a map: the last of each key.
    fn entries(&mut self, number: usize, key: &Scalar, value: &Kind, map: &mut Map) -> Read<()> {
        let mut ranges = std::mem::take(&mut self.open.maps[number]);
        let whole = self.whole;
        if value.is_closed() {
            let mut kept = Vec::with_capacity(ranges.len());
            for (first, end) in ranges.drain(..) {
                if !has_unknown_value(value, &whole[first..end])? {
                    kept.push((first, end));
                }
            }
            ranges = kept;
        }
        let entries = ranges.iter().map(|(first, end)| &whole[*first..*end]);
        let mut last = HashMap::new();
        let mut keys = Vec::with_capacity(ranges.len());
        for (index, entry) in entries.clone().enumerate() {
            let bytes = key_of(key, entry)?;
            keys.push(bytes);
            if ranges.len() > 1 {
                last.insert(key.key(&mut Bytes(bytes))?, index);
            }
        }
        for (index, (entry, bytes)) in entries.zip(&keys).enumerate() {
            let is_last =
                ranges.len() == 1 || last.get(&key.key(&mut Bytes(bytes))?) == Some(&index);
            if is_last {
                self.entry(key, bytes, value, entry, map)?;
            }
        }
        map.push()?;
        ranges.clear();
        self.open.maps[number] = ranges;
        Ok(())
    }

    fn entry(
        &mut self,
        key: &Scalar,
        bytes: &'a [u8],
        value: &Kind,
        entry: &'a [u8],
        map: &mut Map,
    ) -> Read<()> {
        key.read(&mut map.keys, &mut Bytes(bytes))?;
        let items = &mut map.items;
        let row = items.len();
        let expected = if let Kind::Scalar(scalar) = value { scalar.wire() } else { SIZED };
        let mut rest = Bytes(entry);
        let mut has_come = false;
        while !rest.is_empty() {
            match rest.tag()? {
                (2, wire) if wire == expected => {
                    self.single(value, (2, wire), items, row, &mut rest)?;
                    has_come = true;
                }
                (2, wire) => return Err(wrong(wire, expected)),
                (other, wire) => rest.skip(other, wire)?,
            }
        }
        if !has_come {
            self.single(value, (2, expected), items, row, &mut Bytes(ZERO))?;
        }
        if let (Kind::Message(message), Values::Struct(fields)) = (value, &mut items.values) {
            self.close(message, fields, row)?;
        }
        Ok(())
    }
}

/// A time in the unit of a column.
fn in_unit(seconds: i64, nanos: i64, data_type: &DataType) -> Read<i64> {
    let unit = match data_type {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => unit,
        _ => unreachable!("a time has a unit"),
    };
    if *unit == TimeUnit::Nanosecond {
        // The product alone may be too small where the sum is not.
        let number = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        return i64::try_from(number)
            .map_err(|_| format!("{seconds} s and {nanos} ns are out of range in nanoseconds"));
    }
    if nanos % 1_000 != 0 {
        return Err(format!("{nanos} ns are finer than microseconds: give unit=\"ns\""));
    }
    Ok(seconds * 1_000_000 + nanos / 1_000)
}

fn inner<'a>(bytes: &mut Bytes<'a>, number: u32, wire: u32) -> Read<&'a [u8]> {
    if wire == GROUP { bytes.group(number) } else { bytes.sized() }
}

/// The key of an entry, as on the wire.
fn key_of<'a>(key: &Scalar, entry: &'a [u8]) -> Read<&'a [u8]> {
    let mut rest = Bytes(entry);
    let mut found = ZERO;
    while !rest.is_empty() {
        match rest.tag()? {
            (1, wire) if wire == key.wire() => {
                found = rest.0;
                rest.skip(1, wire)?;
            }
            (1, wire) => return Err(wrong(wire, key.wire())),
            (other, wire) => rest.skip(other, wire)?,
        }
    }
    Ok(found)
}

/// Whether the last value of an entry is unknown, and with it the entry.
fn has_unknown_value(value: &Kind, entry: &[u8]) -> Read<bool> {
    let (mut rest, mut is_unknown) = (Bytes(entry), false);
    while !rest.is_empty() {
        let (number, wire) = rest.tag()?;
        if (number, wire) == (2, VARINT) {
            is_unknown = value.is_unknown(rest.0);
        }
        rest.skip(number, wire)?;
    }
    Ok(is_unknown)
}

impl Message {
    /// The place of a field in `numbers`, which is probably `next` or the one before it.
    fn find(&self, number: u32, next: usize) -> Option<usize> {
        let is_at = |place: usize| self.numbers.get(place).is_some_and(|each| each.0 == number);
        if is_at(next) {
            return Some(next);
        }
        if next > 0 && is_at(next - 1) {
            return Some(next - 1);
        }
        self.numbers.binary_search_by_key(&number, |each| each.0).ok()
    }
}

impl Kind {
    /// Whether the bytes are a number that a closed enum does not have: an unknown field.
    fn is_unknown(&self, bytes: &[u8]) -> bool {
        let Kind::Scalar(Scalar::Enum(symbols)) = self else { return false };
        symbols.closed
            && Bytes(bytes).varint().is_ok_and(|number| symbols.get(number as i32).is_none())
    }

    fn is_closed(&self) -> bool {
        matches!(self, Kind::Scalar(Scalar::Enum(symbols)) if symbols.closed)
    }
}

impl Scalar {
    fn key<'a>(&self, bytes: &mut Bytes<'a>) -> Read<Key<'a>> {
        Ok(Key::Number(match self {
            Scalar::Text | Scalar::Binary => return Ok(Key::Text(bytes.sized()?)),
            Scalar::Fixed64 | Scalar::SFixed64 | Scalar::Double => {
                u64::from_le_bytes(bytes.array()?)
            }
            Scalar::Fixed32 | Scalar::SFixed32 | Scalar::Float => {
                u64::from(u32::from_le_bytes(bytes.array()?))
            }
            Scalar::Int64 | Scalar::UInt64 | Scalar::SInt64 => bytes.varint()?,
            Scalar::Int32 | Scalar::UInt32 | Scalar::SInt32 | Scalar::Enum(_) => {
                u64::from(bytes.varint()? as u32)
            }
            Scalar::Bool => u64::from(bytes.varint()? != 0),
        }))
    }

    /// Append a value.
    fn read(&self, column: &mut Column, bytes: &mut Bytes<'_>) -> Read<()> {
        match (self, &mut column.values) {
            (Scalar::Int32, Values::I32(values)) => {
                values.push(bytes.varint()? as i32);
            }
            (Scalar::SInt32, Values::I32(values)) => {
                // Only the low 32 bits count.
                let number = bytes.varint()? as u32;
                values.push((number >> 1) as i32 ^ -((number & 1) as i32));
            }
            (Scalar::SFixed32, Values::I32(values)) => {
                values.push(i32::from_le_bytes(bytes.array()?));
            }
            (Scalar::Int64, Values::I64(values)) => values.push(bytes.varint()? as i64),
            (Scalar::SInt64, Values::I64(values)) => values.push(bytes.zigzag()?),
            (Scalar::SFixed64, Values::I64(values)) => {
                values.push(i64::from_le_bytes(bytes.array()?));
            }
            (Scalar::UInt32, Values::U32(values)) => values.push(bytes.varint()? as u32),
            (Scalar::Fixed32, Values::U32(values)) => {
                values.push(u32::from_le_bytes(bytes.array()?));
            }
            (Scalar::UInt64, Values::U64(values)) => values.push(bytes.varint()?),
            (Scalar::Fixed64, Values::U64(values)) => {
                values.push(u64::from_le_bytes(bytes.array()?));
            }
            (Scalar::Float, Values::F32(values)) => values.push(f32::from_le_bytes(bytes.array()?)),
            (Scalar::Double, Values::F64(values)) => {
                values.push(f64::from_le_bytes(bytes.array()?));
            }
            (Scalar::Bool, Values::Boolean(values)) => values.append(bytes.varint()? != 0),
            (Scalar::Text, Values::Text(values)) => {
                let text = bytes.sized()?;
                str::from_utf8(text).map_err(|error| error.to_string())?;
                values.push(text)?;
            }
            (Scalar::Binary, Values::Binary(values)) => values.push(bytes.sized()?)?,
            (Scalar::Enum(symbols), Values::Text(values)) => {
                let number = bytes.varint()? as i32;
                match symbols.get(number) {
                    Some(symbol) => values.push(symbol.as_bytes())?,
                    None => values.push(number.to_string().as_bytes())?,
                }
            }
            _ => unreachable!("the column has the type of the scalar"),
        }
        column.added();
        Ok(())
    }
}
