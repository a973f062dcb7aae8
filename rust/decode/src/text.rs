//! UTF-8.

use std::str;

use arrow_schema::DataType;

use crate::column::{Column, Values};
use crate::format::{Decode, Format};

pub struct Text;

impl Format for Text {
    fn data_type(&self) -> DataType {
        DataType::Utf8
    }

    fn decoder(&self) -> Box<dyn Decode + '_> {
        Box::new(self)
    }
}

impl Decode for &Text {
    fn read(&mut self, _: Option<&[u8]>, bytes: &[u8], column: &mut Column) -> Result<(), String> {
        str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let Values::Text(texts) = &mut column.values else { unreachable!("a column of texts") };
        let full = |_| "the column exceeds 2 GiB: take fewer records at a time".to_owned();
        texts.push(bytes).map_err(full)?;
        column.added();
        Ok(())
    }
}
