//! google.protobuf's Struct, Value and ListValue as JSON text: they contain each other.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str;

use crate::json::EXACT;
use crate::protobuf::wire::{Bytes, FIXED64, Read, SIZED, VARINT, wrong};

/// As in Google's libraries.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy)]
pub enum Dynamic {
    Struct,
    Value,
    List,
}

impl Dynamic {
    pub fn of(type_name: &str) -> Option<Self> {
        match type_name.strip_prefix(".google.protobuf.")? {
            "Struct" => Some(Dynamic::Struct),
            "Value" => Some(Dynamic::Value),
            "ListValue" => Some(Dynamic::List),
            _ => None,
        }
    }

    /// Returns the JSON text of a message.
    pub fn text(self, message: &[u8]) -> Read<Vec<u8>> {
        let mut text = Vec::new();
        self.write(message, &mut text, 0)?;
        Ok(text)
    }

    fn write(self, message: &[u8], text: &mut Vec<u8>, depth: usize) -> Read<()> {
        if depth == MAX_DEPTH {
            return Err(format!("the value is deeper than {MAX_DEPTH} levels"));
        }
        match self {
            Dynamic::Struct => write_struct(message, text, depth),
            Dynamic::Value => write_value(message, text, depth),
            Dynamic::List => {
                text.push(b'[');
                let begin = text.len();
                each(message, |number, wire, bytes| {
                    if number != 1 {
                        return bytes.skip(number, wire);
                    }
                    separate(text, begin);
                    Dynamic::Value.write(sized(bytes, wire)?, text, depth + 1)
                })?;
                text.push(b']');
                Ok(())
            }
        }
    }
}

fn each<'a>(
    message: &'a [u8],
    mut read: impl FnMut(u32, u32, &mut Bytes<'a>) -> Read<()>,
) -> Read<()> {
    let mut bytes = Bytes(message);
    while !bytes.is_empty() {
        let (number, wire) = bytes.tag()?;
        read(number, wire, &mut bytes)?;
    }
    Ok(())
}

fn expect(wire: u32, expected: u32) -> Read<()> {
    if wire == expected { Ok(()) } else { Err(wrong(wire, expected)) }
}

fn sized<'a>(bytes: &mut Bytes<'a>, wire: u32) -> Read<&'a [u8]> {
    expect(wire, SIZED)?;
    bytes.sized()
}

fn separate(text: &mut Vec<u8>, begin: usize) {
    if text.len() > begin {
        text.push(b',');
    }
}

fn write_string(string: &[u8], text: &mut Vec<u8>) -> Read<()> {
    let string = str::from_utf8(string).map_err(|error| error.to_string())?;
    serde_json::to_writer(text, string).map_err(|error| error.to_string())
}

/// The same as the message twice: parts of a message that comes twice are merged.
fn merge<'a>(before: &mut Cow<'a, [u8]>, more: &'a [u8]) {
    if before.is_empty() {
        *before = Cow::Borrowed(more);
    } else {
        before.to_mut().extend_from_slice(more);
    }
}

fn write_struct(message: &[u8], text: &mut Vec<u8>, depth: usize) -> Read<()> {
    let mut entries = Vec::new();
    let mut last = HashMap::new();
    each(message, |number, wire, bytes| {
        if number != 1 {
            return bytes.skip(number, wire);
        }
        let (mut key, mut value): (&[u8], _) = (&[], Cow::Borrowed(&[][..]));
        each(sized(bytes, wire)?, |number, wire, bytes| {
            match number {
                1 => key = sized(bytes, wire)?,
                2 => merge(&mut value, sized(bytes, wire)?),
                _ => bytes.skip(number, wire)?,
            }
            Ok(())
        })?;
        last.insert(key, entries.len());
        entries.push((key, value));
        Ok(())
    })?;
    text.push(b'{');
    let begin = text.len();
    for (index, (key, value)) in entries.iter().enumerate() {
        if last[key] == index {
            separate(text, begin);
            write_string(key, text)?;
            text.push(b':');
            Dynamic::Value.write(value, text, depth + 1)?;
        }
    }
    text.push(b'}');
    Ok(())
}

/// The member of the oneof of Value.
enum Member<'a> {
    Null,
    Number(f64),
    Text(&'a [u8]),
    Bool(bool),
    Message(u32, Cow<'a, [u8]>),
}

fn write_value(message: &[u8], text: &mut Vec<u8>, depth: usize) -> Read<()> {
    let mut member = Member::Null;
    each(message, |number, wire, bytes| {
        member = match number {
            1 => {
                expect(wire, VARINT)?;
                bytes.varint()?;
                Member::Null
            }
            2 => {
                expect(wire, FIXED64)?;
                Member::Number(f64::from_le_bytes(bytes.array()?))
            }
            3 => Member::Text(sized(bytes, wire)?),
            4 => {
                expect(wire, VARINT)?;
                Member::Bool(bytes.varint()? != 0)
            }
            5 | 6 => {
                let more = sized(bytes, wire)?;
                match &mut member {
                    Member::Message(known, before) if *known == number => {
                        merge(before, more);
                        return Ok(());
                    }
                    _ => Member::Message(number, Cow::Borrowed(more)),
                }
            }
            _ => return bytes.skip(number, wire),
        };
        Ok(())
    })?;
    match member {
        Member::Null => text.extend(b"null"),
        Member::Number(number) if !number.is_finite() => {
            return Err(format!("JSON has no number {number}"));
        }
        Member::Number(number) if number.fract() == 0.0 && number.abs() <= EXACT as f64 => {
            text.extend(number.to_string().as_bytes()); // 1, not 1.0, as in most documents
        }
        Member::Number(number) => {
            serde_json::to_writer(text, &number).map_err(|error| error.to_string())?;
        }
        Member::Text(string) => write_string(string, text)?,
        Member::Bool(true) => text.extend(b"true"),
        Member::Bool(false) => text.extend(b"false"),
        Member::Message(5, message) => Dynamic::Struct.write(&message, text, depth + 1)?,
        Member::Message(_, message) => Dynamic::List.write(&message, text, depth + 1)?,
    }
    Ok(())
}
