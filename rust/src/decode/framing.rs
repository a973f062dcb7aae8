//! What the serializers of a schema registry write before a value.

use std::collections::HashSet;

use crate::decode::input::Input;

/// Splits a value into the id of its schema and the rest.
pub fn framed(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    match bytes {
        [0, a, b, c, d, rest @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), rest)),
        [0, ..] | [] => Err(format!("{} bytes have no place for a schema id", bytes.len())),
        [first, ..] => Err(format!("the first byte is {first}, and 0 comes before a schema id")),
    }
}

/// The ids of the schemas of the values, in the order of their first use.
pub fn ids(input: &Input) -> Vec<u32> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut last = None;
    for row in 0..input.len() {
        let Some(Ok((id, _))) = input.get(row).map(framed) else { continue };
        if last != Some(id) && seen.insert(id) {
            found.push(id);
        }
        last = Some(id);
    }
    found
}
