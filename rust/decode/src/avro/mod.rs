//! Avro by a writer's and a reader's schema, bare or in the framing of a schema registry.
//!
//! Why not the crate arrow-avro: an error leaves its builders as they are, so that a batch would be
//! decoded again for each wrong record; a column here is cut back.

mod plan;
mod schema;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::avro::plan::Step;
use crate::avro::schema::Schema;
use crate::avro::wire::Bytes;
use crate::cells::Cells;
use crate::column::Column;
use crate::format::{Decode, Format};
use crate::framing::{SchemaId, framed, in_header};

/// A schema, and before it those that it refers to.
pub type Texts = Vec<String>;

pub struct Avro {
    data_type: DataType,
    writers: Writers,
}

enum Writers {
    Bare(Writer),
    /// By the id of each value; or why values of an id cannot be read.
    Framed(HashMap<SchemaId, Result<Writer, String>>),
}

struct Writer {
    schema: Arc<Schema>,
    step: Step,
}

impl Avro {
    /// Without `writers`, values are bare Avro of the reader's schema. Decimals have at most
    /// `max_precision` digits.
    pub fn new(
        reader: &Texts,
        writers: Option<HashMap<SchemaId, Texts>>,
        max_precision: u8,
    ) -> Result<Self, String> {
        let reader = Arc::new(Schema::parse(reader)?);
        let data_type = reader.data_type(max_precision)?;
        let writer = |schema: Arc<Schema>| -> Result<Writer, String> {
            let step = plan::resolve(&schema, &reader)?;
            Ok(Writer { schema, step })
        };
        let writers = match writers {
            None => Writers::Bare(writer(Arc::clone(&reader))?),
            Some(texts) => {
                let found = texts.into_iter().map(|(id, texts)| {
                    let made = Schema::parse(&texts).and_then(|schema| writer(Arc::new(schema)));
                    (id, made.map_err(|reason| format!("schema {id}: {reason}")))
                });
                Writers::Framed(found.collect())
            }
        };
        Ok(Avro { data_type, writers })
    }
}

/// The id of a schema that is all that a header has.
fn only_id(header: &[u8]) -> Result<SchemaId, String> {
    match framed(header)? {
        (id, []) => Ok(id),
        (_, rest) => Err(format!("{} bytes are left over", rest.len())),
    }
}

impl Format for Avro {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn decoder(&self) -> Box<dyn Decode + '_> {
        Box::new(Values { avro: self, last: None })
    }

    fn left_out(&self, id: &SchemaId) -> Vec<String> {
        let mut found = Vec::new();
        let Writers::Framed(writers) = &self.writers else { return found };
        if let Some(Ok(Writer { schema, step })) = writers.get(id) {
            step.left_out(schema, schema.root, "", &mut found);
        }
        found
    }
}

struct Values<'a> {
    avro: &'a Avro,
    /// The writer of the value before: most have the same.
    last: Option<(SchemaId, &'a Writer)>,
}

impl<'a> Values<'a> {
    /// The writer of a value, and its bytes.
    fn writer<'b>(
        &mut self,
        header: Option<&[u8]>,
        bytes: &'b [u8],
    ) -> Result<(&'a Writer, &'b [u8]), String> {
        let writers = match &self.avro.writers {
            Writers::Bare(writer) => return Ok((writer, bytes)),
            Writers::Framed(writers) => writers,
        };
        let (id, bytes) = match header {
            None => framed(bytes)?,
            Some(header) => (only_id(header).map_err(in_header)?, bytes),
        };
        if let Some((_, writer)) = self.last.filter(|last| last.0 == id) {
            return Ok((writer, bytes));
        }
        let writer = writers.get(&id).ok_or_else(|| {
            format!(
                "the registry has no Avro schema {id}, or lacks one that it refers to, or it \
                 refers to more than 1000"
            )
        })?;
        let writer = writer.as_ref().map_err(String::clone)?;
        self.last = Some((id, writer));
        Ok((writer, bytes))
    }
}

impl Decode for Values<'_> {
    fn read(
        &mut self,
        header: Option<&[u8]>,
        bytes: &[u8],
        column: &mut Column,
    ) -> Result<(), String> {
        let (writer, bytes) = self.writer(header, bytes)?;
        let cells = Cells::of(bytes);
        let mut bytes = Bytes::new(bytes, &cells);
        wire::read(&writer.step, &writer.schema, column, &mut bytes)
            .and_then(|()| bytes.end())
            .map_err(|reason| {
                // What the schemas lack already has its place.
                if reason.starts_with('$') {
                    reason
                } else {
                    format!("${}: {reason}", column.place())
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, BinaryArray};
    use proptest::prelude::*;

    use super::*;
    use crate::format::decode_rows;
    use crate::input::Input;

    const WRITER: &str = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": "array", "items": ["null", "int", "string"]}},
        {"name": "b", "type": {"type": "map", "values": ["null", "R"]}},
        {"name": "c", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60}},
        {"name": "d", "type": {"type": "fixed", "size": 12, "name": "D", "logicalType": "duration"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "f", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "g", "type": {"type": "array", "items": {"type": "array", "items": "null"}}}
    ]}"#;
    const READER: &str = r#"{"type": "record", "name": "R", "fields": [
        {"name": "f", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "a", "type": {"type": "array", "items": ["null", "double", "bytes"]}},
        {"name": "c", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10}},
        {"name": "d", "type": {"type": "fixed", "size": 12, "name": "D", "logicalType": "duration"}},
        {"name": "z", "type": {"type": "array", "items": "int"}, "default": [1, 2]}
    ]}"#;

    /// Small numbers are lengths and branches.
    fn garbage() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..80)
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(values in prop::collection::vec(garbage(), 1..8)) {
            let writers = HashMap::from([(SchemaId::Number(0), vec![WRITER.to_owned()])]);
            let avro = Avro::new(&vec![READER.to_owned()], Some(writers), 76).unwrap();
            let framed = values.iter().map(|value| [&[0; 5], &value[..]].concat());
            let input = Input::Small(BinaryArray::from_iter_values(framed));
            let (column, failures) = decode_rows(&avro, &input, None, 0..values.len()).unwrap();
            column.to_data().validate_full().unwrap();
            let expected = (values.len(), failures.len());
            prop_assert_eq!((column.len(), column.null_count()), expected);
        }

        #[test]
        fn any_text_is_a_schema_or_an_error(text in r#"(record|[\[\]{}:, ]|"(type|name|fields|items|int|array|R|fixed|size)"|[0-9]){0,30}"#) {
            let _ = Avro::new(&vec![text], None, 38);
        }
    }
}
