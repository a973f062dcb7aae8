//! Protobuf by the reader's descriptor, bare or in the framing of a schema registry.

mod descriptor;
mod dynamic;
mod read;
mod wire;

use std::collections::HashMap;

use arrow_schema::DataType;

use crate::column::Column;
use crate::format::{Decode, Format};
use crate::framing::{SchemaId, framed, in_header};
use crate::protobuf::descriptor::Plan;
pub use crate::protobuf::descriptor::Style;
use crate::protobuf::read::Open;
use crate::protobuf::wire::Bytes;

pub struct Protobuf {
    plan: Plan,
    message: String,
    framing: Framing,
}

/// What precedes the messages.
pub enum Framing {
    Bare,
    /// The id of a schema and the indexes of the message in its file; both are skipped.
    Skipped,
    /// The same: each message must be the expected one in the file of its schema.
    Checked(HashMap<SchemaId, Names>),
}

/// The names of the messages of a file by their indexes; or why there are none.
type Names = Result<HashMap<Vec<i64>, String>, String>;

impl Framing {
    /// With files by the id of their schema, each a FileDescriptorProto.
    pub fn new(framed: bool, files: Option<HashMap<SchemaId, Vec<u8>>>) -> Self {
        let Some(files) = files else {
            return if framed { Framing::Skipped } else { Framing::Bare };
        };
        let names = |(id, file): (SchemaId, Vec<u8>)| {
            let wrong = |reason| format!("schema {id} is no serialized descriptor: {reason}");
            (id, descriptor::messages(&file).map_err(wrong))
        };
        Framing::Checked(files.into_iter().map(names).collect())
    }
}

impl Protobuf {
    /// Of a message in a FileDescriptorSet.
    pub fn new(
        descriptors: &[u8],
        message: &str,
        framing: Framing,
        style: Style,
    ) -> Result<Self, String> {
        let plan = descriptor::plan(descriptors, message, style)?;
        Ok(Protobuf { plan, message: message.trim_start_matches('.').to_owned(), framing })
    }

    fn check(
        &self,
        files: &HashMap<SchemaId, Names>,
        id: SchemaId,
        indexes: &[i64],
    ) -> Result<(), String> {
        let names = files
            .get(&id)
            .ok_or_else(|| format!("the registry has no Protobuf schema {id}"))?
            .as_ref()
            .map_err(String::clone)?;
        let name = names
            .get(indexes)
            .ok_or_else(|| format!("schema {id} has no message at the indexes {indexes:?}"))?;
        if *name == self.message {
            Ok(())
        } else {
            // Its bytes may be a valid message of the expected type, with wrong values.
            Err(format!("the message is {name}, not {}", self.message))
        }
    }
}

impl Format for Protobuf {
    fn data_type(&self) -> DataType {
        self.plan.data_type.clone()
    }

    fn decoder(&self) -> Box<dyn Decode + '_> {
        let open = Open::new(self.plan.numbered, self.plan.cuts_times);
        Box::new(Messages { protobuf: self, open, accepted: Vec::new() })
    }
}

/// Splits off the indexes of a message, which come after the id of its schema.
fn indexes(rest: &mut Bytes<'_>) -> Result<Vec<i64>, String> {
    let count = rest.zigzag()?;
    if count < 0 {
        return Err(format!("their number is {count}"));
    }
    let mut indexes = Vec::new();
    for _ in 0..count {
        indexes.push(rest.zigzag()?);
    }
    // The serializers shorten [0], the first message of a file.
    Ok(if indexes.is_empty() { vec![0] } else { indexes })
}

struct Messages<'a> {
    protobuf: &'a Protobuf,
    open: Open,
    /// The frame of a message of the expected type.
    accepted: Vec<u8>,
}

impl Messages<'_> {
    /// The message after its frame, or all bytes if a header is the frame.
    fn unframed<'b>(&mut self, header: Option<&[u8]>, bytes: &'b [u8]) -> Result<&'b [u8], String> {
        match header {
            _ if matches!(self.protobuf.framing, Framing::Bare) => Ok(bytes),
            None => self.after_frame(bytes),
            Some(header) => match self.after_frame(header).map_err(in_header)? {
                [] => Ok(bytes),
                rest => Err(in_header(format!("{} bytes are left over", rest.len()))),
            },
        }
    }

    fn after_frame<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], String> {
        // Most records have the frame of the one before them.
        if !self.accepted.is_empty() && bytes.starts_with(&self.accepted) {
            return Ok(&bytes[self.accepted.len()..]);
        }
        let (id, rest) = framed(bytes)?;
        let mut rest = Bytes(rest);
        let indexes = indexes(&mut rest)
            .map_err(|reason| format!("the message indexes after the schema id: {reason}"))?;
        if let Framing::Checked(files) = &self.protobuf.framing {
            self.protobuf.check(files, id, &indexes)?;
        }
        self.accepted = bytes[..bytes.len() - rest.0.len()].to_vec();
        Ok(rest.0)
    }
}

impl Decode for Messages<'_> {
    fn read(
        &mut self,
        header: Option<&[u8]>,
        bytes: &[u8],
        column: &mut Column,
    ) -> Result<(), String> {
        let bytes = self.unframed(header, bytes)?;
        read::read(&self.protobuf.plan.message, &mut self.open, column, bytes)
            .map_err(|reason| format!("${}: {reason}", column.place()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, BinaryArray};
    use proptest::prelude::*;

    use super::*;
    use crate::format::decode_rows;
    use crate::input::Input;

    fn sized(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 0x4000);
        let length = [(bytes.len() & 0x7f) as u8 | 0x80, (bytes.len() >> 7) as u8];
        [&[number << 3 | 2][..], &length, bytes].concat()
    }

    fn field(name: &str, number: u8, label: u8, kind: u8, type_name: &str) -> Vec<u8> {
        let numbers = [0x18, number, 0x20, label, 0x28, kind];
        let told = [sized(1, name.as_bytes()), numbers.to_vec(), sized(6, type_name.as_bytes())];
        sized(2, &told.concat())
    }

    /// A message M of all scalars, a message, lists, a map, and times.
    fn descriptors() -> Vec<u8> {
        let entry = [
            sized(1, b"E"),
            field("key", 1, 1, 9, ""),
            field("value", 2, 1, 11, ".N"),
            sized(7, &[0x38, 1]),
        ];
        let mut message = [sized(1, b"M"), sized(3, &entry.concat())].concat();
        let scalars = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18];
        for (kind, number) in scalars.into_iter().zip(1..) {
            message.extend(field(&format!("f{number}"), number, 1 + 2 * (kind & 1), kind, ""));
        }
        message.extend(field("map", 16, 3, 11, ".M.E"));
        message.extend(field("one", 17, 1, 11, ".N"));
        message.extend(field("many", 18, 3, 11, ".N"));
        message.extend(field("group", 19, 3, 10, ".N"));
        message.extend(field("at", 20, 3, 11, ".google.protobuf.Timestamp"));
        message.extend(field("took", 21, 1, 11, ".google.protobuf.Duration"));
        let inner = [sized(1, b"N"), field("a", 1, 1, 9, ""), field("b", 2, 3, 17, "")].concat();
        sized(1, &[sized(4, &message), sized(4, &inner), sized(12, b"proto3")].concat())
    }

    /// Small numbers are tags and lengths.
    fn garbage() -> impl Strategy<Value = Vec<u8>> {
        let tag = (1_u8..22, 0_u8..6).prop_map(|(number, wire)| {
            let tag = u16::from(number) << 3 | u16::from(wire);
            if tag < 0x80 { vec![tag as u8] } else { vec![tag as u8 | 0x80, (tag >> 7) as u8] }
        });
        let part = prop_oneof![
            tag,
            prop::collection::vec(0_u8..8, 0..4),
            any::<[u8; 1]>().prop_map(|byte| byte.to_vec())
        ];
        prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(values in prop::collection::vec(garbage(), 1..8)) {
            let style = Style::new(false, true, false);
            let protobuf = Protobuf::new(&descriptors(), "M", Framing::Bare, style).unwrap();
            let input = Input::Small(BinaryArray::from_iter_values(&values));
            let (column, failures) = decode_rows(&protobuf, &input, None, 0..values.len()).unwrap();
            column.to_data().validate_full().unwrap();
            let expected = (values.len(), failures.len());
            prop_assert_eq!((column.len(), column.null_count()), expected);
        }

        #[test]
        fn any_bytes_are_a_descriptor_or_an_error(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = descriptors();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = descriptor::messages(&bytes);
            let style = Style::new(true, false, false);
            if let Ok(protobuf) = Protobuf::new(&bytes, "M", Framing::Skipped, style) {
                let value = [0, 0, 0, 0, 0, 0, 0x4a, 1, b'x'];
                let input = Input::Small(BinaryArray::from_iter_values([value]));
                let (column, _) = decode_rows(&protobuf, &input, None, 0..1).unwrap();
                column.to_data().validate_full().unwrap();
            }
        }
    }
}
