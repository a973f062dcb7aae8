//! Messages as a FileDescriptorSet tells them: their fields, and their types in Arrow.

use std::collections::{HashMap, HashSet};
use std::str;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::limits::{CHARS_PER_NAME, below, names_limit};
use crate::protobuf::dynamic::Dynamic;
use crate::protobuf::wire::{Bytes, FIXED32, FIXED64, GROUP, Read, SIZED, VARINT};

/// Messages can be in each other to any depth.
const MAX_DEPTH: usize = 64;
/// Types can be used twice at each level: a short descriptor may mean any number of columns.
const MAX_COLUMNS: usize = 10_000;
const TOO_MANY: &str = "the message has too many fields";
/// A default is written for each message without the field: a long one counts as several columns.
const BYTES_PER_COLUMN: usize = 8;
const BYTES_PER_INDEX: usize = size_of::<i64>();
/// The default of a scalar that has none: as a number, as 4 or 8 bytes, and as a length.
pub const ZERO: &[u8] = &[0; 8];

/// A message type.
pub struct Message {
    pub parts: Vec<Part>,
    /// Numbers of fields in their order, and the index of each in `parts`.
    pub numbers: Vec<(u32, usize)>,
    /// The maps that are fields of the message itself.
    pub maps: Vec<usize>,
    /// How many values a message has at least in Arrow.
    pub width: usize,
}

/// A field.
pub struct Part {
    pub kind: Kind,
    pub wire: u32,
    pub repeated: bool,
    pub absent: Absent,
    /// All fields of its oneof.
    pub oneof: Arc<[usize]>,
}

/// What stands for a field that does not come.
pub enum Absent {
    Null,
    Wrong,
    /// As on the wire.
    Default(Vec<u8>),
}

pub enum Kind {
    Scalar(Scalar),
    Message(Box<Message>),
    /// google.protobuf.Timestamp or Duration. Each has a number.
    Timestamp(usize),
    Duration(usize),
    /// One of google.protobuf's messages with one field.
    Wrapper(Scalar),
    /// One of google.protobuf's messages that contain each other. Each has a number.
    Dynamic(usize, Dynamic),
    /// Each map has a number.
    Map(usize, Scalar, Box<Kind>),
}

#[derive(Clone)]
pub enum Scalar {
    Double,
    Float,
    Int64,
    UInt64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    Text,
    Binary,
    UInt32,
    SFixed32,
    SFixed64,
    SInt32,
    SInt64,
    Enum(Arc<Symbols>),
}

/// The symbols of an enum by their numbers, which ascend.
pub struct Symbols {
    symbols: Vec<(i32, String)>,
    /// Whether a field with another number is unknown.
    pub closed: bool,
}

impl Symbols {
    pub fn get(&self, number: i32) -> Option<&str> {
        let guess = self.symbols.get(number as usize).filter(|(other, _)| *other == number);
        guess.map(|(_, symbol)| symbol.as_str()).or_else(|| {
            let found = self.symbols.binary_search_by_key(&number, |(other, _)| *other);
            found.ok().map(|index| self.symbols[index].1.as_str())
        })
    }
}

impl Scalar {
    pub fn wire(&self) -> u32 {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::SFixed64 => FIXED64,
            Scalar::Float | Scalar::Fixed32 | Scalar::SFixed32 => FIXED32,
            Scalar::Text | Scalar::Binary => SIZED,
            _ => VARINT,
        }
    }

    pub fn data_type(&self) -> DataType {
        match self {
            Scalar::Double => DataType::Float64,
            Scalar::Float => DataType::Float32,
            Scalar::Int64 | Scalar::SFixed64 | Scalar::SInt64 => DataType::Int64,
            Scalar::UInt64 | Scalar::Fixed64 => DataType::UInt64,
            Scalar::Int32 | Scalar::SFixed32 | Scalar::SInt32 => DataType::Int32,
            Scalar::UInt32 | Scalar::Fixed32 => DataType::UInt32,
            Scalar::Bool => DataType::Boolean,
            Scalar::Text | Scalar::Enum(_) => DataType::Utf8,
            Scalar::Binary => DataType::Binary,
        }
    }

    /// A default of proto2 as it is on the wire; None if it is none of the type.
    fn default(&self, text: &str) -> Option<Vec<u8>> {
        Some(match self {
            Scalar::Double => text.parse::<f64>().ok()?.to_le_bytes().to_vec(),
            Scalar::Float => text.parse::<f32>().ok()?.to_le_bytes().to_vec(),
            Scalar::Fixed64 => text.parse::<u64>().ok()?.to_le_bytes().to_vec(),
            Scalar::SFixed64 => text.parse::<i64>().ok()?.to_le_bytes().to_vec(),
            Scalar::Fixed32 => text.parse::<u32>().ok()?.to_le_bytes().to_vec(),
            Scalar::SFixed32 => text.parse::<i32>().ok()?.to_le_bytes().to_vec(),
            Scalar::UInt64 | Scalar::UInt32 => varint(text.parse().ok()?),
            Scalar::Int64 | Scalar::Int32 => varint(text.parse::<i64>().ok()? as u64),
            Scalar::SInt64 | Scalar::SInt32 => {
                let number = text.parse::<i64>().ok()?;
                varint(((number << 1) ^ (number >> 63)) as u64)
            }
            Scalar::Bool => varint(u64::from(text.parse::<bool>().ok()?)),
            Scalar::Text => sized(text.as_bytes()),
            Scalar::Binary => sized(&unescaped(text)?),
            Scalar::Enum(symbols) => {
                let (number, _) = symbols.symbols.iter().find(|(_, symbol)| symbol == text)?;
                varint(i64::from(*number) as u64)
            }
        })
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while number >= 0x80 {
        written.push(number as u8 | 0x80);
        number >>= 7;
    }
    written.push(number as u8);
    written
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// Bytes as protoc writes a default: with the escapes of C.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (second, after) = rest.split_first()?;
        rest = after;
        let (digits, radix) = match second {
            b'0'..=b'7' => {
                rest = &text.as_bytes()[text.len() - rest.len() - 1..];
                (rest.iter().take(3).take_while(|each| (b'0'..=b'7').contains(each)).count(), 8)
            }
            b'x' | b'X' => {
                (rest.iter().take(2).take_while(|each| each.is_ascii_hexdigit()).count(), 16)
            }
            _ => {
                bytes.push(match second {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'v' => 11,
                    other => *other,
                });
                continue;
            }
        };
        let (number, after) = rest.split_at(digits);
        bytes.push(u8::from_str_radix(str::from_utf8(number).ok()?, radix).ok()?);
        rest = after;
    }
    Some(bytes)
}

/// What the syntax or the edition of a file says, and may be said again below.
#[derive(Clone, Copy)]
struct Features {
    /// Of field_presence.
    presence: u64,
    closed: bool,
    delimited: bool,
}

/// The syntax of a file that does not name it.
const PROTO2: &str = "proto2";
const EXPLICIT: u64 = 1;
const IMPLICIT: u64 = 2;
const LEGACY_REQUIRED: u64 = 3;
const CLOSED: u64 = 2;
const DELIMITED: u64 = 2;

impl Features {
    /// Those of a message FeatureSet go before these.
    fn with(mut self, set: &[u8]) -> Read<Self> {
        each(set, |number, value| {
            match (number, value) {
                (1, Value::Number(presence)) => self.presence = presence,
                (2, Value::Number(kind)) => self.closed = kind == CLOSED,
                (5, Value::Number(encoding)) => self.delimited = encoding == DELIMITED,
                _ => {}
            }
            Ok(())
        })?;
        Ok(self)
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number } else { 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }

    fn text(&self) -> Read<&'a str> {
        str::from_utf8(self.bytes()).map_err(|error| error.to_string())
    }
}

fn each<'a>(bytes: &'a [u8], mut seen: impl FnMut(u32, Value<'a>) -> Read<()>) -> Read<()> {
    let mut bytes = Bytes(bytes);
    while !bytes.is_empty() {
        match bytes.tag()? {
            (number, VARINT) => seen(number, Value::Number(bytes.varint()?))?,
            (number, SIZED) => seen(number, Value::Bytes(bytes.sized()?))?,
            (number, wire) => bytes.skip(number, wire)?,
        }
    }
    Ok(())
}

/// Types by their full names, which begin with a dot.
struct Types<'a> {
    messages: HashMap<String, Told<'a>>,
    enums: HashMap<String, Arc<Symbols>>,
    names: Names,
}

/// How many bytes of full names, and of the indexes of messages, may still come.
struct Names(usize);

impl Names {
    fn full(&mut self, space: &str, name: &str) -> Read<String> {
        self.take(space.len() + 1 + name.len())?;
        Ok(format!("{space}.{name}"))
    }

    fn take(&mut self, bytes: usize) -> Read<()> {
        self.0 = self.0.checked_sub(bytes).ok_or("the names with their packages are too long")?;
        Ok(())
    }
}

struct Told<'a> {
    fields: Vec<ToldField<'a>>,
    features: Features,
    is_entry: bool,
}

#[derive(Clone)]
struct ToldField<'a> {
    name: &'a str,
    number: u32,
    label: u64,
    kind: u64,
    type_name: &'a str,
    default: Option<&'a str>,
    oneof: Option<u64>,
    is_optional: bool,
    features: &'a [u8],
}

const REQUIRED: u64 = 2;
const REPEATED: u64 = 3;
const TYPE_GROUP: u64 = 10;
const TYPE_MESSAGE: u64 = 11;

impl<'a> Types<'a> {
    fn file(&mut self, bytes: &'a [u8]) -> Read<()> {
        let (mut package, mut syntax, mut options): (&str, &str, &[u8]) = ("", PROTO2, &[]);
        let (mut messages, mut enums) = (Vec::new(), Vec::new());
        each(bytes, |number, value| {
            match number {
                2 => package = value.text()?,
                4 => messages.push(value.bytes()),
                5 => enums.push(value.bytes()),
                8 => options = value.bytes(),
                12 => syntax = value.text()?,
                _ => {}
            }
            Ok(())
        })?;
        let presence = if syntax == "proto3" { IMPLICIT } else { EXPLICIT };
        let features = Features { presence, closed: syntax == PROTO2, delimited: false }
            .with(option(options, 50)?)?;
        let space = if package.is_empty() { String::new() } else { format!(".{package}") };
        enums.into_iter().try_for_each(|each| self.symbols(each, &space, features))?;
        messages.into_iter().try_for_each(|each| self.message(each, &space, features, 0))
    }

    fn message(&mut self, bytes: &'a [u8], space: &str, above: Features, depth: usize) -> Read<()> {
        if depth == MAX_DEPTH {
            return Err(format!("the descriptors are deeper than {MAX_DEPTH} levels"));
        }
        let (mut name, mut options): (&str, &[u8]) = ("", &[]);
        let (mut fields, mut messages, mut enums) = (Vec::new(), Vec::new(), Vec::new());
        each(bytes, |number, value| {
            match number {
                1 => name = value.text()?,
                2 => fields.push(field(value.bytes())?),
                3 => messages.push(value.bytes()),
                4 => enums.push(value.bytes()),
                7 => options = value.bytes(),
                _ => {}
            }
            Ok(())
        })?;
        let mut is_entry = false;
        each(options, |number, value| {
            is_entry |= number == 7 && value.number() != 0;
            Ok(())
        })?;
        let name = self.names.full(space, name)?;
        let features = above.with(option(options, 12)?)?;
        for each in enums {
            self.symbols(each, &name, features)?;
        }
        for each in messages {
            self.message(each, &name, features, depth + 1)?;
        }
        self.messages.insert(name, Told { fields, features, is_entry });
        Ok(())
    }

    fn symbols(&mut self, bytes: &'a [u8], space: &str, above: Features) -> Read<()> {
        let (mut name, mut symbols, mut options): (_, _, &[u8]) = ("", Vec::new(), &[]);
        each(bytes, |number, value| {
            match number {
                1 => name = value.text()?,
                2 => {
                    let mut symbol = (0, String::new());
                    each(value.bytes(), |number, value| {
                        match number {
                            1 => symbol.1 = value.text()?.to_owned(),
                            2 => symbol.0 = value.number() as i32,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    symbols.push(symbol);
                }
                3 => options = value.bytes(),
                _ => {}
            }
            Ok(())
        })?;
        // The first of several symbols with a number is its name.
        symbols.sort_by_key(|(number, _)| *number);
        symbols.dedup_by_key(|(number, _)| *number);
        let closed = above.with(option(options, 7)?)?.closed;
        let name = self.names.full(space, name)?;
        self.enums.insert(name, Arc::new(Symbols { symbols, closed }));
        Ok(())
    }
}

/// The last message of an options message with a number.
fn option(options: &[u8], wanted: u32) -> Read<&[u8]> {
    let mut found: &[u8] = &[];
    each(options, |number, value| {
        if number == wanted {
            found = value.bytes();
        }
        Ok(())
    })?;
    Ok(found)
}

fn field(bytes: &[u8]) -> Read<ToldField<'_>> {
    let mut told = ToldField {
        name: "",
        number: 0,
        label: 0,
        kind: 0,
        type_name: "",
        default: None,
        oneof: None,
        is_optional: false,
        features: &[],
    };
    each(bytes, |number, value| {
        match number {
            1 => told.name = value.text()?,
            3 => told.number = value.number() as u32,
            4 => told.label = value.number(),
            5 => told.kind = value.number(),
            6 => told.type_name = value.text()?,
            7 => told.default = Some(value.text()?),
            8 => told.features = option(value.bytes(), 21)?,
            9 => told.oneof = Some(value.number()),
            17 => told.is_optional = value.number() != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(told)
}

/// The scalar that a message such as Int64Value wraps.
fn wrapped(type_name: &str) -> Option<Scalar> {
    Some(match type_name.strip_prefix(".google.protobuf.")? {
        "DoubleValue" => Scalar::Double,
        "FloatValue" => Scalar::Float,
        "Int64Value" => Scalar::Int64,
        "UInt64Value" => Scalar::UInt64,
        "Int32Value" => Scalar::Int32,
        "UInt32Value" => Scalar::UInt32,
        "BoolValue" => Scalar::Bool,
        "StringValue" => Scalar::Text,
        "BytesValue" => Scalar::Binary,
        _ => return None,
    })
}

/// The full names of the messages of a file (a FileDescriptorProto), by their indexes in it.
pub fn messages(file: &[u8]) -> Read<HashMap<Vec<i64>, String>> {
    let (mut package, mut found, mut inner) = ("", HashMap::new(), Vec::new());
    each(file, |number, value| {
        match number {
            2 => package = value.text()?,
            4 => inner.push(value.bytes()),
            _ => {}
        }
        Ok(())
    })?;
    nested(inner, package, &[], &mut found, &mut Names(names_limit(file.len())))?;
    Ok(found)
}

fn nested(
    messages: Vec<&[u8]>,
    space: &str,
    above: &[i64],
    found: &mut HashMap<Vec<i64>, String>,
    names: &mut Names,
) -> Read<()> {
    if above.len() == MAX_DEPTH {
        return Err(format!("the messages are deeper than {MAX_DEPTH} levels"));
    }
    for (message, index) in messages.into_iter().zip(0..) {
        let (mut name, mut inner) = ("", Vec::new());
        each(message, |number, value| {
            match number {
                1 => name = value.text()?,
                3 => inner.push(value.bytes()),
                _ => {}
            }
            Ok(())
        })?;
        let name = if space.is_empty() { name.to_owned() } else { names.full(space, name)? };
        // A message has two bytes at least, and an index for each one around it.
        names.take(BYTES_PER_INDEX * (above.len() + 1))?;
        let indexes = [above, &[index]].concat();
        nested(inner, &name, &indexes, found, names)?;
        found.insert(indexes, name);
    }
    Ok(())
}

/// How to read a message.
pub struct Plan {
    pub message: Message,
    pub data_type: DataType,
    /// How many maps, times and messages as JSON it has.
    pub numbered: usize,
    /// Whether digits of times that are finer than their unit are cut off.
    pub cuts_times: bool,
}

/// What types of messages become.
#[derive(Clone, Copy)]
pub struct Style {
    unit: TimeUnit,
    struct_as_json: bool,
    as_spark: bool,
}

impl Style {
    /// With `struct_as_json`, messages such as Struct are JSON text. With `as_spark`, messages such
    /// as Int64Value stay messages, and digits of times that are finer than their unit are cut off.
    pub fn new(nanoseconds: bool, struct_as_json: bool, as_spark: bool) -> Self {
        let unit = if nanoseconds { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        Style { unit, struct_as_json, as_spark }
    }
}

pub fn plan(descriptors: &[u8], name: &str, style: Style) -> Read<Plan> {
    let names = Names(names_limit(descriptors.len()));
    let mut types = Types { messages: HashMap::new(), enums: HashMap::new(), names };
    each(descriptors, |number, value| if number == 1 { types.file(value.bytes()) } else { Ok(()) })
        .map_err(|reason| format!("the descriptors are no FileDescriptorSet: {reason}"))?;
    let name = format!(".{}", name.trim_start_matches('.'));
    if !types.messages.contains_key(&name) {
        let mut known: Vec<_> = types.messages.iter().filter(|(_, told)| !told.is_entry).collect();
        known.sort_by_key(|(name, _)| *name);
        let known: Vec<_> = known.into_iter().take(10).map(|(name, _)| &name[1..]).collect();
        return Err(format!(
            "the descriptors have no message {:?}; they have {}",
            &name[1..],
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        ));
    }
    let mut planner = Planner { types, above: Vec::new(), left: MAX_COLUMNS, numbered: 0, style };
    let (message, data_type) = planner.message(&name, "$")?;
    Ok(Plan { message, data_type, numbered: planner.numbered, cuts_times: style.as_spark })
}

struct Planner<'a> {
    types: Types<'a>,
    above: Vec<String>,
    left: usize,
    numbered: usize,
    style: Style,
}

impl Planner<'_> {
    fn message(&mut self, name: &str, place: &str) -> Read<(Message, DataType)> {
        if let Some(first) = self.above.iter().position(|each| each == name) {
            let cycle: Vec<_> = self.above[first..].iter().map(|each| &each[1..]).collect();
            let advice = match Dynamic::of(name) {
                Some(_) => "struct_as_json=True makes JSON text of it",
                None => "remove the field from the descriptor, and it is skipped",
            };
            return Err(format!(
                "{place}: the message {0} contains itself ({1} > {0}), which no Arrow type does; \
                 {advice}",
                &name[1..],
                cycle.join(" > ")
            ));
        }
        if self.above.len() == MAX_DEPTH {
            return Err(format!("the message is deeper than {MAX_DEPTH} levels"));
        }
        let told = self.types.messages.get(name).ok_or_else(|| {
            format!(
                "{place}: the descriptors lack the type {}; protoc needs --include_imports",
                name.trim_start_matches('.')
            )
        })?;
        if told.fields.len() > self.left {
            return Err(TOO_MANY.to_owned());
        }
        let (fields, features, is_entry) = (told.fields.clone(), told.features, told.is_entry);
        self.above.push(name.to_owned());
        let (mut parts, mut types, mut width) = (Vec::new(), Vec::new(), 1);
        let (mut names, mut oneofs) = (HashSet::new(), HashMap::<_, Vec<usize>>::new());
        for (told, index) in fields.iter().zip(0..) {
            if let Some(oneof) = told.oneof {
                oneofs.entry(oneof).or_default().push(index);
            }
        }
        let oneofs: HashMap<_, Arc<[usize]>> =
            oneofs.into_iter().map(|(oneof, fields)| (oneof, fields.into())).collect();
        for told in &fields {
            let place = below(place, &format!(".{}", told.name));
            if !names.insert(told.name) {
                return Err(format!("{place}: two fields have this name"));
            }
            let features = features.with(told.features)?;
            let (mut part, data_type) = self.part(told, features, is_entry, &place)?;
            if let Some(oneof) = told.oneof {
                part.oneof = Arc::clone(&oneofs[&oneof]);
            }
            let extra = match (&part.absent, &part.kind) {
                (Absent::Default(default), _) => (default.len() - 1) / BYTES_PER_COLUMN,
                (_, Kind::Message(message)) if !part.repeated => message.width,
                _ => 0,
            };
            width += 1 + extra;
            let extra = if matches!(part.kind, Kind::Message(_)) { 0 } else { extra };
            let columns = 1 + extra + told.name.len() / CHARS_PER_NAME;
            self.left = self.left.checked_sub(columns).ok_or(TOO_MANY)?;
            let nullable = !part.repeated && matches!(part.absent, Absent::Null);
            types.push(Field::new(told.name, data_type, nullable));
            parts.push(part);
        }
        self.above.pop();
        let mut numbers: Vec<_> =
            fields.iter().zip(0..).map(|(field, index)| (field.number, index)).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("{place}: two fields have the same number"));
        }
        let maps = parts.iter().filter_map(|part| match part.kind {
            Kind::Map(number, ..) => Some(number),
            _ => None,
        });
        let maps = maps.collect();
        Ok((Message { parts, numbers, maps, width }, DataType::Struct(Fields::from(types))))
    }

    fn part(
        &mut self,
        told: &ToldField<'_>,
        features: Features,
        in_entry: bool,
        place: &str,
    ) -> Read<(Part, DataType)> {
        let repeated = told.label == REPEATED;
        let entry = self
            .types
            .messages
            .get(told.type_name)
            .filter(|entry| repeated && entry.is_entry && told.kind == TYPE_MESSAGE);
        let (kind, mut data_type) = match entry {
            Some(entry) => {
                let find = |number| entry.fields.iter().find(|each| each.number == number).cloned();
                let (Some(key), Some(value)) = (find(1), find(2)) else {
                    return Err(format!("{place}: the entry of a map has a key and a value"));
                };
                let key = self.scalar(&key, place)?;
                let (value, value_type) = self.kind(&value, &below(place, ".*"))?;
                let pair = Fields::from(vec![
                    Field::new("key", key.data_type(), false),
                    Field::new("value", value_type, false),
                ]);
                let entries = Field::new("entries", DataType::Struct(pair), false);
                let kind = Kind::Map(self.next(), key, Box::new(value));
                (kind, DataType::Map(Arc::new(entries), false))
            }
            None => self.kind(told, place)?,
        };
        let is_map = matches!(kind, Kind::Map(..));
        if repeated && !is_map {
            data_type = DataType::List(Arc::new(Field::new("item", data_type, false)));
        }
        let delimited = told.kind == TYPE_GROUP
            || told.kind == TYPE_MESSAGE && features.delimited && !is_map && !in_entry;
        let wire = match &kind {
            Kind::Scalar(scalar) => scalar.wire(),
            _ if delimited => GROUP,
            _ => SIZED,
        };
        let is_explicit = features.presence != IMPLICIT || told.is_optional || told.oneof.is_some();
        let absent = match &kind {
            _ if repeated => Absent::Null,
            _ if told.label == REQUIRED || features.presence == LEGACY_REQUIRED => Absent::Wrong,
            // What is not null says which field of a oneof is set.
            Kind::Scalar(scalar) if told.default.is_some() && told.oneof.is_none() => {
                let default = scalar.default(told.default.unwrap_or_default());
                Absent::Default(default.ok_or_else(|| format!("{place}: the default is invalid"))?)
            }
            Kind::Scalar(_) if !is_explicit => Absent::Default(ZERO.to_vec()),
            _ => Absent::Null,
        };
        Ok((Part { kind, wire, repeated, absent, oneof: Arc::default() }, data_type))
    }

    fn next(&mut self) -> usize {
        self.numbered += 1;
        self.numbered - 1
    }

    fn kind(&mut self, told: &ToldField<'_>, place: &str) -> Read<(Kind, DataType)> {
        if !matches!(told.kind, TYPE_GROUP | TYPE_MESSAGE) {
            let scalar = self.scalar(told, place)?;
            let data_type = scalar.data_type();
            return Ok((Kind::Scalar(scalar), data_type));
        }
        match told.type_name {
            ".google.protobuf.Timestamp" => {
                let utc = DataType::Timestamp(self.style.unit, Some("UTC".into()));
                Ok((Kind::Timestamp(self.next()), utc))
            }
            ".google.protobuf.Duration" => {
                let kind = Kind::Duration(self.next());
                Ok((kind, DataType::Duration(self.style.unit)))
            }
            name => {
                if let Some(scalar) = wrapped(name).filter(|_| !self.style.as_spark) {
                    let data_type = scalar.data_type();
                    return Ok((Kind::Wrapper(scalar), data_type));
                }
                if let Some(dynamic) = Dynamic::of(name).filter(|_| self.style.struct_as_json) {
                    return Ok((Kind::Dynamic(self.next(), dynamic), DataType::Utf8));
                }
                let (message, data_type) = self.message(name, place)?;
                Ok((Kind::Message(Box::new(message)), data_type))
            }
        }
    }

    fn scalar(&self, told: &ToldField<'_>, place: &str) -> Read<Scalar> {
        Ok(match told.kind {
            1 => Scalar::Double,
            2 => Scalar::Float,
            3 => Scalar::Int64,
            4 => Scalar::UInt64,
            5 => Scalar::Int32,
            6 => Scalar::Fixed64,
            7 => Scalar::Fixed32,
            8 => Scalar::Bool,
            9 => Scalar::Text,
            12 => Scalar::Binary,
            13 => Scalar::UInt32,
            14 => {
                let found = self.types.enums.get(told.type_name).cloned();
                Scalar::Enum(found.ok_or_else(|| {
                    format!(
                        "{place}: the descriptors lack the type {}; protoc needs --include_imports",
                        told.type_name.trim_start_matches('.')
                    )
                })?)
            }
            15 => Scalar::SFixed32,
            16 => Scalar::SFixed64,
            17 => Scalar::SInt32,
            18 => Scalar::SInt64,
            other => return Err(format!("{place}: there is no type {other}")),
        })
    }
}
