//! Keys and values: copied into one buffer, or views of the buffers in which they were received.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, BinaryViewArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::ArrowError;

use crate::arrow::part::Part;
use crate::batches::{Field, Row};

/// Returns the column of the values that `choose` selects from each row.
///
/// Data that exceeds the 2 GiB of a binary column becomes views in any case.
pub fn column(
    parts: &[Part],
    choose: fn(&Row) -> Field,
    view: bool,
) -> Result<ArrayRef, ArrowError> {
    let fields = || Part::rows(parts).map(|(piece, row)| choose(&piece.columns.rows[row]));
    let size: i64 = fields().map(|field| i64::from(field.length.max(0))).sum();
    let nulls = match fields().any(|field| field.length < 0) {
        true => Some(NullBuffer::from_iter(fields().map(|field| field.length >= 0))),
        false => None,
    };
    if view || size > i64::from(i32::MAX) {
        views(parts, choose, nulls)
    } else {
        copies(parts, choose, nulls, size as usize)
    }
}

fn copies(
    parts: &[Part],
    choose: fn(&Row) -> Field,
    nulls: Option<NullBuffer>,
    size: usize,
) -> Result<ArrayRef, ArrowError> {
    let count: usize = parts.iter().map(Part::count).sum();
    let mut offsets: Vec<i32> = Vec::with_capacity(count + 1);
    let mut data: Vec<u8> = Vec::with_capacity(size);
    offsets.push(0);
    for (piece, row) in Part::rows(parts) {
        if let Some(bytes) = piece.columns.bytes(choose(&piece.columns.rows[row])) {
            data.extend_from_slice(bytes);
        }
        offsets.push(data.len() as i32);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(data), nulls)?))
}

fn views(
    parts: &[Part],
    choose: fn(&Row) -> Field,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let mut views: Vec<u128> = Vec::with_capacity(parts.iter().map(Part::count).sum());
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut known: HashMap<*const u8, u32> = HashMap::new();
    for piece in parts.iter().flat_map(|part| &part.pieces) {
        let data = &piece.columns.data;
        let mut index = None;
        for row in &piece.columns.rows[piece.start..piece.stop] {
            let field = choose(row);
            let bytes = piece.columns.bytes(field).unwrap_or_default();
            if bytes.len() <= MAX_INLINE_VIEW_LEN as usize {
                let mut inline = [0; 16];
                inline[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
                inline[4..4 + bytes.len()].copy_from_slice(bytes);
                views.push(u128::from_le_bytes(inline));
                continue;
            }
            let buffer_index = *index.get_or_insert_with(|| {
                *known.entry(data.as_ptr()).or_insert_with(|| {
                    buffers.push(share(data));
                    (buffers.len() - 1) as u32
                })
            });
            let view = ByteView::new(bytes.len() as u32, &bytes[..4]);
            views.push(view.with_buffer_index(buffer_index).with_offset(field.at).into());
        }
    }
    Ok(Arc::new(BinaryViewArray::try_new(ScalarBuffer::from(views), buffers, nulls)?))
}

/// The same memory as an Arrow buffer with shared ownership.
fn share(data: &Arc<crate::buffer::Buffer>) -> Buffer {
    let start = NonNull::new(data.as_ptr() as *mut u8).unwrap_or(NonNull::dangling());
    // SAFETY: the shared owner keeps the bytes alive and unchanged, at the same address.
    unsafe { Buffer::from_custom_allocation(start, data.len(), Arc::new(Arc::clone(data))) }
}
