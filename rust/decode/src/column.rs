//! A column that grows by one value at a time, and can be cut back when a value turns out wrong.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, GenericListArray, MapArray, NullArray, OffsetSizeTrait, StructArray,
    make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBufferBuilder, Buffer, IntervalMonthDayNano, NullBuffer,
    NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256,
};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};

use crate::cells::BYTES_PER_CELL;

/// The values of a field.
pub struct Column {
    pub field: FieldRef,
    pub values: Values,
    /// How many values a null has, with those of its fields.
    pub width: usize,
    nulls: NullBufferBuilder,
}

pub enum Values {
    Null,
    Boolean(BooleanBufferBuilder),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Decimal(Vec<i128>, u8, i8),
    Decimal256(Vec<i256>, u8),
    Interval(Vec<IntervalMonthDayNano>),
    /// Byte strings of a size.
    Fixed(Vec<u8>, usize),
    /// Days.
    Date(Vec<i32>),
    Timestamp(Vec<i64>, TimeUnit),
    Text(Bytes<i32>),
    LargeText(Bytes<i64>),
    Binary(Bytes<i32>),
    LargeBinary(Bytes<i64>),
    List(Box<List<i32>>),
    LargeList(Box<List<i64>>),
    Map(Box<Map>),
    Struct(Struct),
}

/// Byte strings.
pub struct Bytes<O> {
    ends: Vec<O>,
    data: Vec<u8>,
}

pub struct List<O> {
    ends: Vec<O>,
    /// Whether an item is being read: part of the place of an error.
    pub reading: bool,
    pub item: Column,
}

pub struct Map {
    ends: Vec<i32>,
    /// Entries whose key comes again in the same map, ascending; they are left out in the end.
    replaced: Vec<usize>,
    pub keys: Column,
    pub items: Column,
}

pub struct Struct {
    pub fields: Vec<Column>,
    /// The field that is being read: part of the place of an error.
    pub current: Option<usize>,
    /// The fields by name, if there are many.
    numbers: HashMap<String, usize>,
}

/// So many fields are found faster one after the other than by a hash.
const FEW: usize = 16;

/// A type as pyarrow and JSON call it.
pub fn shown(data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => "an object".to_owned(),
        DataType::List(_) | DataType::LargeList(_) => "an array".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 => "a string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// Checks that a type can be read from JSON.
pub fn check(data_type: &DataType, place: &str) -> Result<(), String> {
    let below = |field: &FieldRef| check(field.data_type(), &format!("{place}.{}", field.name()));
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            check(item.data_type(), &format!("{place}[]"))
        }
        DataType::Struct(fields) => {
            let mut names = HashSet::new();
            for field in fields {
                if !names.insert(field.name()) {
                    return Err(format!(
                        "the field {place}.{} is twice in the schema",
                        field.name()
                    ));
                }
                below(field)?;
            }
            Ok(())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if *pair[0].data_type() == DataType::Utf8 => {
                check(pair[1].data_type(), &format!("{place}.*"))
            }
            _ => Err(format!("${place}: the keys of a map must be string")),
        },
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary => Ok(()),
        other => Err(format!(
            "${place}: JSON cannot be read as {}; use null, bool, integers, float32, float64, \
             decimal128, date32, timestamp, string, binary (base64), list, struct or map",
            shown(other)
        )),
    }
}

impl Column {
    /// An empty column of a type that `check` has accepted.
    pub fn new(field: FieldRef, rows: usize) -> Self {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(rows)),
            DataType::Int8 => Values::I8(Vec::with_capacity(rows)),
            DataType::Int16 => Values::I16(Vec::with_capacity(rows)),
            DataType::Int32 => Values::I32(Vec::with_capacity(rows)),
            DataType::Int64 => Values::I64(Vec::with_capacity(rows)),
            DataType::UInt8 => Values::U8(Vec::with_capacity(rows)),
            DataType::UInt16 => Values::U16(Vec::with_capacity(rows)),
            DataType::UInt32 => Values::U32(Vec::with_capacity(rows)),
            DataType::UInt64 => Values::U64(Vec::with_capacity(rows)),
            DataType::Float32 => Values::F32(Vec::with_capacity(rows)),
            DataType::Float64 => Values::F64(Vec::with_capacity(rows)),
            DataType::Decimal128(precision, scale) => {
                Values::Decimal(Vec::with_capacity(rows), *precision, *scale)
            }
            DataType::Decimal256(precision, _) => {
                Values::Decimal256(Vec::with_capacity(rows), *precision)
            }
            DataType::Interval(_) => Values::Interval(Vec::with_capacity(rows)),
            DataType::FixedSizeBinary(size) => Values::Fixed(Vec::new(), *size as usize),
            DataType::Time32(_) => Values::I32(Vec::with_capacity(rows)),
            DataType::Time64(_) | DataType::Duration(_) => Values::I64(Vec::with_capacity(rows)),
            DataType::Date32 => Values::Date(Vec::with_capacity(rows)),
            DataType::Timestamp(unit, _) => Values::Timestamp(Vec::with_capacity(rows), *unit),
            DataType::Utf8 => Values::Text(Bytes::new(rows)),
            DataType::LargeUtf8 => Values::LargeText(Bytes::new(rows)),
            DataType::Binary => Values::Binary(Bytes::new(rows)),
            DataType::LargeBinary => Values::LargeBinary(Bytes::new(rows)),
            DataType::List(item) => Values::List(Box::new(List::new(item, rows))),
            DataType::LargeList(item) => Values::LargeList(Box::new(List::new(item, rows))),
            DataType::Map(entries, _) => Values::Map(Box::new(Map::new(entries, rows))),
            DataType::Struct(fields) => Values::Struct(Struct::new(fields, rows)),
            _ => Values::Null,
        };
        let width = match &values {
            Values::Struct(inner) => 1 + inner.fields.iter().map(|each| each.width).sum::<usize>(),
            Values::Fixed(_, size) => 1 + size / BYTES_PER_CELL,
            _ => 1,
        };
        Column { field, values, width, nulls: NullBufferBuilder::new(rows) }
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Note that `values` has one value more.
    pub fn added(&mut self) {
        self.nulls.append_non_null();
    }

    /// Append null, also where the field does not allow it: the caller has checked that, or a
    /// struct above is null.
    pub fn push_null(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.append(false),
            Values::I8(values) => values.push(0),
            Values::I16(values) => values.push(0),
            Values::I32(values) | Values::Date(values) => values.push(0),
            Values::I64(values) | Values::Timestamp(values, _) => values.push(0),
            Values::U8(values) => values.push(0),
            Values::U16(values) => values.push(0),
            Values::U32(values) => values.push(0),
            Values::U64(values) => values.push(0),
            Values::F32(values) => values.push(0.0),
            Values::F64(values) => values.push(0.0),
            Values::Decimal(values, ..) => values.push(0),
            Values::Decimal256(values, _) => values.push(i256::ZERO),
            Values::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Values::Fixed(values, size) => values.resize(values.len() + *size, 0),
            Values::Text(bytes) | Values::Binary(bytes) => bytes.end(),
            Values::LargeText(bytes) | Values::LargeBinary(bytes) => bytes.end(),
            Values::List(list) => list.end(),
            Values::LargeList(list) => list.end(),
            Values::Map(map) => map.end(),
            Values::Struct(fields) => fields.fields.iter_mut().for_each(Column::push_null),
        }
    }

    /// Cut back to a length; what was added in part since then is removed, too.
    pub fn truncate(&mut self, length: usize) {
        self.nulls.truncate(length);
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.truncate(length),
            Values::I8(values) => values.truncate(length),
            Values::I16(values) => values.truncate(length),
            Values::I32(values) | Values::Date(values) => values.truncate(length),
            Values::I64(values) | Values::Timestamp(values, _) => values.truncate(length),
            Values::U8(values) => values.truncate(length),
            Values::U16(values) => values.truncate(length),
            Values::U32(values) => values.truncate(length),
            Values::U64(values) => values.truncate(length),
            Values::F32(values) => values.truncate(length),
            Values::F64(values) => values.truncate(length),
            Values::Decimal(values, ..) => values.truncate(length),
            Values::Decimal256(values, _) => values.truncate(length),
            Values::Interval(values) => values.truncate(length),
            Values::Fixed(values, size) => values.truncate(length * *size),
            Values::Text(bytes) | Values::Binary(bytes) => bytes.truncate(length),
            Values::LargeText(bytes) | Values::LargeBinary(bytes) => bytes.truncate(length),
            Values::List(list) => list.truncate(length),
            Values::LargeList(list) => list.truncate(length),
            Values::Map(map) => map.truncate(length),
            Values::Struct(fields) => {
                fields.current = None;
                fields.fields.iter_mut().for_each(|field| field.truncate(length));
            }
        }
    }

    /// The path of what is being read, such as `.user.tags[2]`.
    pub fn place(&self) -> String {
        match &self.values {
            Values::Struct(fields) => fields.current.map_or(String::new(), |index| {
                let field = &fields.fields[index];
                format!(".{}{}", field.field.name(), field.place())
            }),
            Values::List(list) => list.place(),
            Values::LargeList(list) => list.place(),
            Values::Map(map) => map.items.place(),
            _ => String::new(),
        }
    }

    /// Returns the array, and leaves an empty column.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let length = self.len();
        let nulls = self.nulls.finish();
        let data_type = self.field.data_type().clone();
        Ok(match &mut self.values {
            Values::Null => Arc::new(NullArray::new(length)),
            Values::Boolean(values) => {
                let buffer = values.finish();
                primitive(data_type, buffer.into_inner(), length, nulls)?
            }
            Values::I8(values) => numbers(data_type, values, nulls)?,
            Values::I16(values) => numbers(data_type, values, nulls)?,
            Values::I32(values) | Values::Date(values) => numbers(data_type, values, nulls)?,
            Values::I64(values) | Values::Timestamp(values, _) => {
                numbers(data_type, values, nulls)?
            }
            Values::U8(values) => numbers(data_type, values, nulls)?,
            Values::U16(values) => numbers(data_type, values, nulls)?,
            Values::U32(values) => numbers(data_type, values, nulls)?,
            Values::U64(values) => numbers(data_type, values, nulls)?,
            Values::F32(values) => numbers(data_type, values, nulls)?,
            Values::F64(values) => numbers(data_type, values, nulls)?,
            Values::Decimal(values, ..) => numbers(data_type, values, nulls)?,
            Values::Decimal256(values, _) => numbers(data_type, values, nulls)?,
            Values::Interval(values) => numbers(data_type, values, nulls)?,
            Values::Fixed(values, _) => {
                primitive(data_type, Buffer::from_vec(std::mem::take(values)), length, nulls)?
            }
            Values::Text(bytes) | Values::Binary(bytes) => bytes.finish(data_type, nulls)?,
            Values::LargeText(bytes) | Values::LargeBinary(bytes) => {
                bytes.finish(data_type, nulls)?
            }
            Values::List(list) => list.finish(nulls)?,
            Values::LargeList(list) => list.finish(nulls)?,
            Values::Map(map) => map.finish(data_type, nulls)?,
            Values::Struct(fields) => {
                let arrays = fields.fields.iter_mut().map(Column::finish);
                let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                // Where a struct above is null, every field is: Parquet refuses one that is not
                // nullable.
                let types = fields.fields.iter().zip(&arrays);
                let types =
                    types.map(|(each, array)| typed(&each.field, array).with_nullable(true));
                Arc::new(StructArray::try_new_with_length(types.collect(), arrays, nulls, length)?)
            }
        })
    }
}

/// A field with the type that its values have.
fn typed(field: &Field, values: &ArrayRef) -> Field {
    field.clone().with_data_type(values.data_type().clone())
}

fn numbers<T: ArrowNativeType>(
    data_type: DataType,
    values: &mut Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let values = std::mem::take(values);
    let length = values.len();
    primitive(data_type, Buffer::from_vec(values), length, nulls)
}

fn primitive(
    data_type: DataType,
    values: Buffer,
    length: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let data = ArrayData::builder(data_type).len(length).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build()?))
}

/// Why a column of 32-bit offsets is full.
fn full() -> String {
    "the column exceeds its 32-bit offsets: use large_string, large_binary or large_list, or take \
     fewer records at a time"
        .to_owned()
}

impl<O: OffsetSizeTrait> Bytes<O> {
    fn new(rows: usize) -> Self {
        Bytes { ends: started(rows), data: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        let end = O::from_usize(self.data.len() + bytes.len()).ok_or_else(full)?;
        self.data.extend_from_slice(bytes);
        self.ends.push(end);
        Ok(())
    }

    fn get(&self, index: usize) -> &[u8] {
        &self.data[self.ends[index].as_usize()..self.ends[index + 1].as_usize()]
    }

    fn end(&mut self) {
        self.ends.push(self.ends[self.ends.len() - 1]);
    }

    fn truncate(&mut self, length: usize) {
        self.ends.truncate(length + 1);
        self.data.truncate(self.ends[self.ends.len() - 1].as_usize());
    }

    fn finish(
        &mut self,
        data_type: DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, started(0));
        let length = ends.len() - 1;
        let data = ArrayData::builder(data_type)
            .len(length)
            .add_buffer(Buffer::from_vec(ends))
            .add_buffer(Buffer::from_vec(std::mem::take(&mut self.data)))
            .nulls(nulls);
        // SAFETY: the ends grow, and the data of texts is UTF-8 between them, as the readers check each.
        Ok(make_array(unsafe { data.build_unchecked() }))
    }
}

impl<O: OffsetSizeTrait> List<O> {
    fn new(item: &FieldRef, rows: usize) -> Self {
        List { ends: started(rows), reading: false, item: Column::new(Arc::clone(item), 0) }
    }

    pub fn push(&mut self) -> Result<(), String> {
        self.reading = false;
        self.ends.push(O::from_usize(self.item.len()).ok_or_else(full)?);
        Ok(())
    }

    fn end(&mut self) {
        self.ends.push(self.ends[self.ends.len() - 1]);
    }

    fn truncate(&mut self, length: usize) {
        self.reading = false;
        self.ends.truncate(length + 1);
        self.item.truncate(self.ends[self.ends.len() - 1].as_usize());
    }

    fn place(&self) -> String {
        if !self.reading {
            return String::new();
        }
        let index = self.item.len() - self.ends[self.ends.len() - 1].as_usize();
        format!("[{index}]{}", self.item.place())
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, started(0));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let items = self.item.finish()?;
        let field = Arc::new(typed(&self.item.field, &items));
        Ok(Arc::new(GenericListArray::<O>::try_new(field, offsets, items, nulls)?))
    }
}

impl Struct {
    fn new(fields: &Fields, rows: usize) -> Self {
        let names = fields.iter().map(|each| each.name().clone());
        let numbers = if fields.len() > FEW { names.zip(0..).collect() } else { HashMap::new() };
        let fields = fields.iter().map(|each| Column::new(Arc::clone(each), rows)).collect();
        Struct { fields, current: None, numbers }
    }

    /// Returns the index of a field.
    pub fn numbered(&self, name: &str) -> Option<usize> {
        if self.fields.len() > FEW {
            return self.numbers.get(name).copied();
        }
        self.fields.iter().position(|each| each.field.name() == name)
    }
}

impl Map {
    fn new(entries: &FieldRef, rows: usize) -> Self {
        let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map's entries") };
        Map {
            ends: started(rows),
            replaced: Vec::new(),
            keys: Column::new(Arc::clone(&pair[0]), 0),
            items: Column::new(Arc::clone(&pair[1]), 0),
        }
    }

    /// End a map whose keys must differ.
    pub fn push(&mut self) -> Result<(), String> {
        if let (Values::Text(keys), Some(first)) = (&self.keys.values, self.repeated().last()) {
            let name = String::from_utf8_lossy(keys.get(*first));
            return Err(format!("the name {name:?} is in the object twice"));
        }
        self.end_entries()
    }

    /// End a map of which the last entry of a key counts.
    pub fn push_last(&mut self) -> Result<(), String> {
        self.replaced.extend(self.repeated().iter().rev());
        self.end_entries()
    }

    /// The entries of the open map whose key comes again, descending.
    fn repeated(&self) -> Vec<usize> {
        let Values::Text(keys) = &self.keys.values else { return Vec::new() };
        let begin = self.ends[self.ends.len() - 1] as usize;
        let mut seen = HashSet::with_capacity(self.keys.len() - begin);
        (begin..self.keys.len()).rev().filter(|index| !seen.insert(keys.get(*index))).collect()
    }

    fn end_entries(&mut self) -> Result<(), String> {
        self.ends.push(i32::from_usize(self.items.len()).ok_or_else(full)?);
        Ok(())
    }

    fn end(&mut self) {
        self.ends.push(self.ends[self.ends.len() - 1]);
    }

    fn truncate(&mut self, length: usize) {
        self.ends.truncate(length + 1);
        let end = self.ends[self.ends.len() - 1] as usize;
        self.replaced.truncate(self.replaced.partition_point(|entry| *entry < end));
        self.keys.truncate(end);
        self.items.truncate(end);
    }

    fn finish(
        &mut self,
        data_type: DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let DataType::Map(entries, sorted) = data_type else { unreachable!("a map's type") };
        let (length, keys, items) = (self.keys.len(), self.keys.finish()?, self.items.finish()?);
        let pair = vec![typed(&self.keys.field, &keys), typed(&self.items.field, &items)];
        let pairs = StructArray::try_new_with_length(pair.into(), vec![keys, items], None, length)?;
        let mut ends = std::mem::replace(&mut self.ends, started(0));
        let pairs = match std::mem::take(&mut self.replaced) {
            replaced if replaced.is_empty() => pairs,
            replaced => {
                for end in &mut ends {
                    *end -= replaced.partition_point(|entry| *entry < *end as usize) as i32;
                }
                without(&pairs, &replaced)?
            }
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let field = Field::new(entries.name(), pairs.data_type().clone(), entries.is_nullable());
        Ok(Arc::new(MapArray::try_new(Arc::new(field), offsets, pairs, nulls, sorted)?))
    }
}

/// Returns an array without some rows, which ascend.
fn without(array: &StructArray, rows: &[usize]) -> Result<StructArray, ArrowError> {
    let data = array.to_data();
    let mut kept = MutableArrayData::new(vec![&data], false, array.len() - rows.len());
    let mut begin = 0;
    for end in rows.iter().copied().chain([array.len()]) {
        kept.try_extend(0, begin, end)?;
        begin = end + 1;
    }
    Ok(StructArray::from(kept.freeze()))
}

fn started<O: OffsetSizeTrait>(rows: usize) -> Vec<O> {
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(O::zero());
    ends
}
