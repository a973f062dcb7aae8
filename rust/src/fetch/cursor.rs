//! Reads a response field by field, with bounds checks.

/// A position in a frame, with its version's encoding of lengths and tags.
pub struct Cursor<'a> {
    data: &'a [u8],
    flexible: bool,
    at: usize,
    end: usize,
}

pub type Read<T> = Result<T, String>;

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8], at: usize, flexible: bool) -> Self {
        Cursor { data, flexible, at: at.min(data.len()), end: data.len() }
    }

    /// The position of the next field.
    pub fn position(&self) -> usize {
        self.at
    }

    /// A cursor over the next `length` bytes, which this one skips.
    fn inner(&mut self, length: usize) -> Read<Cursor<'a>> {
        let at = self.at;
        self.skip(length)?;
        Ok(Cursor { data: self.data, flexible: self.flexible, at, end: self.at })
    }

    pub fn skip(&mut self, length: usize) -> Read<()> {
        if length > self.end - self.at {
            return Err(format!("a field of {length} bytes does not fit"));
        }
        self.at += length;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Read<[u8; N]> {
        let from = self.at;
        self.skip(N)?;
        Ok(self.data[from..from + N].try_into().expect("N bytes were taken"))
    }

    pub fn int16(&mut self) -> Read<i16> {
        self.take().map(i16::from_be_bytes)
    }

    pub fn int32(&mut self) -> Read<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub fn int64(&mut self) -> Read<i64> {
        self.take().map(i64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> Read<[u8; 16]> {
        self.take()
    }

    /// An unsigned varint of up to 32 bits.
    fn uvarint(&mut self) -> Read<usize> {
        let mut value: u64 = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value as usize);
            }
        }
        Err("a varint has more than five bytes".to_owned())
    }

    /// A length or count; -1 is null.
    fn length(&mut self) -> Read<i64> {
        if self.flexible { Ok(self.uvarint()? as i64 - 1) } else { Ok(i64::from(self.int32()?)) }
    }

    pub fn nullable_string(&mut self) -> Read<Option<String>> {
        let length =
            if self.flexible { self.uvarint()? as i64 - 1 } else { i64::from(self.int16()?) };
        if length == -1 {
            return Ok(None);
        }
        let (from, length) = (self.at, at_least_zero(length)?);
        self.skip(length)?;
        match std::str::from_utf8(&self.data[from..self.at]) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(error) => Err(format!("a string is not valid UTF-8: {error}")),
        }
    }

    pub fn string(&mut self) -> Read<String> {
        self.nullable_string()?.ok_or_else(|| "a string is null".to_owned())
    }

    /// An array; no memory is reserved for its claimed count. `least` is the smallest size of an
    /// element: the bytes that follow bound the count.
    pub fn array<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let count = self.count()?;
        if count > (self.end - self.at) / least {
            return Err(format!("an array of {count} elements does not fit"));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// An array for which null means empty.
    pub fn nullable_array<T>(
        &mut self,
        least: usize,
        read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut ahead = Cursor { data: self.data, flexible: self.flexible, ..*self };
        if ahead.length()? == -1 {
            self.at = ahead.at;
            return Ok(Vec::new());
        }
        self.array(least, read)
    }

    /// The number of elements of the array that follows.
    pub fn count(&mut self) -> Read<usize> {
        at_least_zero(self.length()?)
    }

    /// The length of the nullable bytes that follow; null counts as empty.
    pub fn bytes_length(&mut self) -> Read<usize> {
        match self.length()? {
            -1 => Ok(0),
            length => at_least_zero(length),
        }
    }

    /// Reads tagged fields with one call of `read` for each. Only flexible versions have them.
    pub fn tags(&mut self, mut read: impl FnMut(usize, &mut Self) -> Read<()>) -> Read<()> {
        let count = if self.flexible { self.uvarint()? } else { 0 };
        for _ in 0..count {
            let tag = self.uvarint()?;
            let length = self.uvarint()?;
            read(tag, &mut self.inner(length)?)?;
        }
        Ok(())
    }

    pub fn skip_tags(&mut self) -> Read<()> {
        self.tags(|_, _| Ok(()))
    }
}

fn at_least_zero(length: i64) -> Read<usize> {
    usize::try_from(length).map_err(|_| format!("a length or count is {length}"))
}
