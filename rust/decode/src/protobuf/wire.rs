//! The wire format. The bytes come from anywhere: every length is checked.

/// What is unknown may be groups in groups.
const MAX_GROUPS: usize = 100;

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const SIZED: u32 = 2;
pub const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
pub const FIXED32: u32 = 5;

pub type Read<T> = Result<T, String>;

pub fn wrong(wire: u32, expected: u32) -> String {
    format!("the field has wire type {wire} where its type has {expected}")
}

/// What is left of a message.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes were to come, and there are {}", self.0.len()))?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    /// A number of 64 bits; more bits are cut off, as everywhere in Protobuf.
    pub fn varint(&mut self) -> Read<u64> {
        match self.0 {
            [byte, rest @ ..] if byte & 0x80 == 0 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long(10),
        }
    }

    fn long(&mut self, longest: usize) -> Read<u64> {
        let mut number = 0;
        for (index, byte) in self.0.iter().take(longest).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() < longest {
            "the value ends within a number".to_owned()
        } else {
            format!("a number has more than {longest} bytes")
        })
    }

    pub fn zigzag(&mut self) -> Read<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A length or a tag.
    fn short(&mut self) -> Read<u32> {
        let number = match self.0 {
            [byte, rest @ ..] if byte & 0x80 == 0 => {
                self.0 = rest;
                return Ok(u32::from(*byte));
            }
            _ => self.long(5)?,
        };
        u32::try_from(number).map_err(|_| format!("the number {number} has more than 32 bits"))
    }

    pub fn sized(&mut self) -> Read<&'a [u8]> {
        let length = self.short()?;
        self.take(length as usize)
    }

    /// The number and the wire type of a field.
    pub fn tag(&mut self) -> Read<(u32, u32)> {
        let tag = self.short()?;
        match (tag >> 3, tag & 7) {
            (0, _) => Err("a field has the number 0".to_owned()),
            (number, GROUP_END) => Err(format!("a group ends that has not begun: {number}")),
            (number, wire @ (6 | 7)) => {
                Err(format!("field {number} has wire type {wire}, which does not exist"))
            }
            found => Ok(found),
        }
    }

    pub fn skip(&mut self, number: u32, wire: u32) -> Read<()> {
        match wire {
            VARINT => drop(self.varint()?),
            FIXED64 => drop(self.take(8)?),
            SIZED => drop(self.sized()?),
            FIXED32 => drop(self.take(4)?),
            _ => drop(self.group(number)?),
        }
        Ok(())
    }

    /// What is between the begin of a group, which has been read, and its end.
    pub fn group(&mut self, number: u32) -> Read<&'a [u8]> {
        let whole = self.0;
        let mut open = vec![number];
        loop {
            let left = self.0.len();
            let tag = self.short()?;
            match (tag >> 3, tag & 7) {
                (ended, GROUP_END) => {
                    if open.pop() != Some(ended) {
                        return Err(format!("a group ends that has not begun: {ended}"));
                    }
                    if open.is_empty() {
                        return Ok(&whole[..whole.len() - left]);
                    }
                }
                (begun, GROUP) if begun != 0 => {
                    if open.len() == MAX_GROUPS {
                        return Err(format!("groups are deeper than {MAX_GROUPS} levels"));
                    }
                    open.push(begun);
                }
                (0, _) => return Err("a field has the number 0".to_owned()),
                (other, wire @ (6 | 7)) => {
                    return Err(format!(
                        "field {other} has wire type {wire}, which does not exist"
                    ));
                }
                (other, wire) => self.skip(other, wire)?,
            }
        }
    }
}
