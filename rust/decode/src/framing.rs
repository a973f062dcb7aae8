//! How serializers of a schema registry name the schema of a value: before it, or in a header.

use std::collections::HashSet;
use std::fmt;

use pyo3::prelude::*;

use crate::input::Input;

/// What a registry calls a schema.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromPyObject, IntoPyObject)]
pub enum SchemaId {
    /// Of one registry.
    Number(u32),
    /// The same in all registries.
    Guid([u8; 16]),
}

impl fmt::Display for SchemaId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaId::Number(number) => number.fmt(formatter),
            SchemaId::Guid(bytes) => {
                let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
                let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
                parts.join("-").fmt(formatter)
            }
        }
    }
}

/// Splits the bytes of a value or a header into the id of the schema and the rest.
pub fn framed(bytes: &[u8]) -> Result<(SchemaId, &[u8]), String> {
    let number = |id: &[u8; 4]| SchemaId::Number(u32::from_be_bytes(*id));
    let found = match bytes {
        [0, rest @ ..] => rest.split_first_chunk().map(|(id, rest)| (number(id), rest)),
        [1, rest @ ..] => rest.split_first_chunk().map(|(id, rest)| (SchemaId::Guid(*id), rest)),
        [] => None,
        [first, ..] => {
            return Err(format!("the first byte is {first}, and 0 or 1 comes before a schema id"));
        }
    };
    found.ok_or_else(|| format!("{} bytes have no place for a schema id", bytes.len()))
}

/// JSON without the id of its schema: no document begins with one of these bytes.
pub fn bare_json(bytes: &[u8]) -> Result<&[u8], String> {
    if matches!(bytes, [0 | 1, ..]) { framed(bytes).map(|(_, rest)| rest) } else { Ok(bytes) }
}

/// Adds to a reason that it concerns the header, not the value.
pub fn in_header(reason: String) -> String {
    format!("the header with the schema id: {reason}")
}

/// The ids of the schemas of the values, in the order of their first use. A header comes before
/// what the value begins with.
pub fn ids(input: &Input, headers: Option<&Input>) -> Vec<SchemaId> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut last = None;
    for row in 0..input.len() {
        let Some(bytes) = input.get(row) else { continue };
        let header = headers.and_then(|headers| headers.get(row));
        let Ok((id, _)) = framed(header.unwrap_or(bytes)) else { continue };
        if last != Some(id) && seen.insert(id) {
            found.push(id);
        }
        last = Some(id);
    }
    found
}
