//! One column each: what a message has for it, and the buffers that it grows.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::growing::{Buffer, Slices, Validity};
use crate::properties::{Known, Properties};
use crate::record::Record;

/// The buffers of one column in Arrow's order; of a map those of its offsets, of its names and of its values.
pub type Buffers = Vec<Option<Buffer>>;

/// Milliseconds of the times that a column holds, as `column_table.py` has them.
const TIMES_MS: RangeInclusive<i64> = -59_011_459_200_000..=250_246_627_199_999;

/// A column that grows by a value with each message.
pub enum Column {
    Int32(fn(&Record) -> i32, Vec<i32>),
    Int64(fn(&Record) -> i64, Vec<i64>),
    /// Milliseconds as microseconds.
    Time(fn(&Record) -> i64, Vec<i64>),
    Bodies(Slices),
    /// The same text for all, and how many there are.
    Constant(Vec<u8>, usize),
    /// The value of a property, null where it has none.
    Property(Known, Slices, Validity),
    /// The same of the property that is `named` so.
    Named(usize, Slices, Validity),
    /// The first of these properties, else the topic where it is stored.
    Topic(&'static [Known], Slices),
    /// The first of these properties, else the offsetMsgId.
    Id(&'static [Known], Slices),
    Host(for<'a> fn(&Record<'a>) -> &'a [u8], Hosts),
    Properties(Map),
}

impl Column {
    /// The column of a field of `MessageExt` (Python's names), or of one of the properties `named`; None for any other.
    pub fn of_field(field: &str, broker_name: &[u8], named: &[String]) -> Option<Self> {
        if let Some(name) = named_by(field) {
            let number = named.iter().position(|other| other == name)?;
            return Some(Self::Named(number, Slices::default(), Validity::default()));
        }
        Some(match field {
            "topic" => Self::Topic(&[], Slices::default()),
            "origin_topic" => Self::Topic(&[Known::RetryTopic], Slices::default()),
            "broker_name" => Self::Constant(broker_name.to_vec(), 0),
            "queue_id" => Self::Int32(|record| record.queue_id, Vec::new()),
            "queue_offset" => Self::Int64(|record| record.queue_offset, Vec::new()),
            "msg_id" => Self::Id(&[Known::UniqKey], Slices::default()),
            "origin_msg_id" => Self::Id(&[Known::UniqKey, Known::OriginMessageId], Slices::default()),
            "offset_msg_id" => Self::Id(&[], Slices::default()),
            "keys" => Self::Property(Known::Keys, Slices::default(), Validity::default()),
            "tags" => Self::Property(Known::Tags, Slices::default(), Validity::default()),
            "body" => Self::Bodies(Slices::default()),
            "properties" => Self::Properties(Map::default()),
            "born_timestamp_ms" => Self::Time(|record| record.born_timestamp_ms, Vec::new()),
            "store_timestamp_ms" => Self::Time(|record| record.store_timestamp_ms, Vec::new()),
            "reconsume_times" => Self::Int32(|record| record.reconsume_times, Vec::new()),
            "born_host" => Self::Host(|record| record.born_host, Hosts::default()),
            "store_host" => Self::Host(|record| record.store_host, Hosts::default()),
            "commit_log_offset" => Self::Int64(|record| record.commit_log_offset, Vec::new()),
            "sys_flag" => Self::Int32(|record| record.sys_flag(), Vec::new()),
            "flag" => Self::Int32(|record| record.flag, Vec::new()),
            "body_crc" => Self::Int32(|record| record.body_crc, Vec::new()),
            _ => return None,
        })
    }

    pub fn needs_properties(&self) -> bool {
        match self {
            Self::Property(..) | Self::Named(..) | Self::Properties(_) => true,
            Self::Topic(names, _) | Self::Id(names, _) => !names.is_empty(),
            _ => false,
        }
    }

    pub fn needs_body(&self) -> bool {
        matches!(self, Self::Bodies(_))
    }

    /// Refused: text that is no UTF-8, times that columns do not hold, and more than 2 GiB.
    pub fn push(&mut self, record: &Record, properties: &Properties) -> Option<()> {
        match self {
            Self::Int32(of, values) => values.push(of(record)),
            Self::Int64(of, values) => values.push(of(record)),
            Self::Time(of, values) => {
                let time_ms = of(record);
                TIMES_MS.contains(&time_ms).then(|| values.push(time_ms * 1000))?;
            }
            Self::Bodies(values) => values.push(record.stored_body)?,
            Self::Constant(value, count) => {
                *count += 1;
                i32::try_from(count.checked_mul(value.len())?).ok()?;
            }
            Self::Property(name, values, validity) => push_value(properties.value(*name), values, validity)?,
            Self::Named(number, values, validity) => push_value(properties.named_value(*number), values, validity)?,
            Self::Topic(names, values) => match first_value(names, properties) {
                Some(value) => values.push(value)?,
                None => values.push(std::str::from_utf8(record.topic).ok()?.as_bytes())?,
            },
            Self::Id(names, values) => match first_value(names, properties) {
                Some(value) => values.push(value)?,
                None => push_offset_msg_id(values, record)?,
            },
            Self::Host(of, values) => values.push(of(record))?,
            Self::Properties(values) => values.push(properties)?,
        }
        Some(())
    }

    /// Makes room for `rows` like the only one so far.
    pub fn expect(&mut self, rows: usize) {
        match self {
            Self::Int32(_, values) => values.reserve(rows),
            Self::Int64(_, values) | Self::Time(_, values) => values.reserve(rows),
            Self::Property(_, values, _) | Self::Named(_, values, _) => values.expect(rows),
            Self::Bodies(values) | Self::Topic(_, values) | Self::Id(_, values) => values.expect(rows),
            Self::Host(_, hosts) => hosts.values.expect(rows),
            Self::Properties(map) => {
                map.row_ends.reserve(rows);
                map.names.expect(rows);
                map.values.expect(rows);
            }
            Self::Constant(..) => {}
        }
    }

    /// Takes back all but the first `rows`, also of a row that was refused half-way.
    pub fn truncate(&mut self, rows: usize) {
        match self {
            Self::Int32(_, values) => values.truncate(rows),
            Self::Int64(_, values) | Self::Time(_, values) => values.truncate(rows),
            Self::Property(_, values, validity) | Self::Named(_, values, validity) => {
                values.truncate(rows);
                validity.truncate(rows);
            }
            Self::Bodies(values) | Self::Topic(_, values) | Self::Id(_, values) => values.truncate(rows),
            Self::Constant(_, count) => *count = rows.min(*count),
            Self::Host(_, hosts) => hosts.values.truncate(rows),
            Self::Properties(map) => map.truncate(rows),
        }
    }

    pub fn finish(self) -> Buffers {
        match self {
            Self::Int32(_, mut values) => {
                values.shrink_to_fit();
                vec![None, Some(Buffer::Int32(values))]
            }
            Self::Int64(_, mut values) | Self::Time(_, mut values) => {
                values.shrink_to_fit();
                vec![None, Some(Buffer::Int64(values))]
            }
            Self::Property(_, values, validity) | Self::Named(_, values, validity) => {
                with_validity(validity.finish(), values)
            }
            Self::Bodies(values) | Self::Topic(_, values) | Self::Id(_, values) => with_validity(None, values),
            Self::Constant(value, count) => with_validity(None, Slices::repeated(&value, count)),
            Self::Host(_, hosts) => with_validity(None, hosts.values),
            Self::Properties(map) => map.finish(),
        }
    }
}

/// The property that a field is called after.
pub fn named_by(field: &str) -> Option<&str> {
    field.strip_prefix("properties.")
}

fn push_value(value: Option<&[u8]>, values: &mut Slices, validity: &mut Validity) -> Option<()> {
    validity.push(value.is_some());
    values.push(value.unwrap_or_default())
}

fn with_validity(validity: Option<Buffer>, values: Slices) -> Buffers {
    let [offsets, data] = values.finish();
    vec![validity, Some(offsets), Some(data)]
}

fn first_value<'a>(names: &[Known], properties: &Properties<'a, '_>) -> Option<&'a [u8]> {
    names.iter().find_map(|&name| properties.value(name))
}

/// Upper-case hex of the store host and the place in the commit log.
fn push_offset_msg_id(values: &mut Slices, record: &Record) -> Option<()> {
    values.push_hex(record.store_host);
    values.push_hex(&record.commit_log_offset.to_be_bytes());
    values.end_value()
}

/// Hosts as `ip:port`. Few hosts send and store many messages, so the last one is kept.
#[derive(Default)]
pub struct Hosts {
    values: Slices,
    stored: Vec<u8>,
    text: String,
}

impl Hosts {
    fn push(&mut self, stored: &[u8]) -> Option<()> {
        if self.stored != stored {
            self.text = format_host(stored)?;
            self.stored.clear();
            self.stored.extend_from_slice(stored);
        }
        self.values.push(self.text.as_bytes())
    }
}

/// Refused: IPv4 addresses inside IPv6, which Python writes differently from version to version.
fn format_host(stored: &[u8]) -> Option<String> {
    let (ip, port) = stored.split_last_chunk().map(|(ip, port)| (ip, i32::from_be_bytes(*port)))?;
    if let Ok(ip) = <[u8; 4]>::try_from(ip) {
        return Some(format!("{}:{port}", Ipv4Addr::from(ip)));
    }
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?);
    ip.to_ipv4_mapped().is_none().then(|| format!("[{ip}]:{port}"))
}

/// All properties of each message.
pub struct Map {
    row_ends: Vec<i32>,
    names: Slices,
    values: Slices,
    last_names: Option<u64>,
}

impl Default for Map {
    fn default() -> Self {
        Self { row_ends: vec![0], names: Slices::default(), values: Slices::default(), last_names: None }
    }
}

impl Map {
    fn push(&mut self, properties: &Properties) -> Option<()> {
        let pairs = properties.pairs();
        if self.last_names == Some(properties.names_version()) {
            self.names.repeat_last(pairs.len())?;
        } else {
            pairs.iter().try_for_each(|(name, _)| self.names.push(name))?;
            self.last_names = Some(properties.names_version());
        }
        pairs.iter().try_for_each(|(_, value)| self.values.push(value))?;
        self.row_ends.push(i32::try_from(self.values.value_count()).ok()?);
        Some(())
    }

    fn truncate(&mut self, rows: usize) {
        self.row_ends.truncate(rows + 1);
        let pairs = self.row_ends.last().map_or(0, |&end| end.try_into().unwrap_or_default());
        self.names.truncate(pairs);
        self.values.truncate(pairs);
        self.last_names = None;
    }

    fn finish(self) -> Buffers {
        let [name_offsets, names] = self.names.finish();
        let [value_offsets, values] = self.values.finish();
        [Buffer::Int32(self.row_ends), name_offsets, names, value_offsets, values].into_iter().map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(ip: &[u8], port: i32) -> Vec<u8> {
        [ip, &port.to_be_bytes()].concat()
    }

    #[test]
    fn hosts_are_written_as_python_writes_them() {
        let ipv6 = |text: &str| text.parse::<Ipv6Addr>().expect("it is one").octets();
        for (stored, text) in [
            (host(&[10, 0, 0, 1], 40001), "10.0.0.1:40001"),
            (host(&[255, 0, 0, 1], -1), "255.0.0.1:-1"),
            (host(&ipv6("2001:db8::1"), 10911), "[2001:db8::1]:10911"),
            (host(&ipv6("1:0:0:2:0:0:0:3"), 1), "[1:0:0:2::3]:1"),
            (host(&ipv6("::1"), 7), "[::1]:7"),
            (host(&ipv6("::1.2.3.4"), 7), "[::102:304]:7"),
            (host(&ipv6("::"), 7), "[::]:7"),
            (host(&ipv6("1:0:2:3:4:5:6:7"), 1), "[1:0:2:3:4:5:6:7]:1"),
        ] {
            assert_eq!(format_host(&stored).as_deref(), Some(text));
        }
        assert_eq!(format_host(&host(&ipv6("::ffff:1.2.3.4"), 1)), None);
        assert_eq!(format_host(&[0; 7]), None);
    }

    #[test]
    fn no_field_that_is_not_a_column() {
        assert!(Column::of_field("prepared_transaction_offset", b"", &[]).is_none());
        assert!(Column::of_field("properties.a", b"", &["b".into()]).is_none());
    }

    #[test]
    fn names_are_repeated_only_of_the_row_before() {
        let mut map = Map::default();
        let mut properties = Properties::default();
        for (stored, is_kept) in
            [(&b"a\x01b\x02"[..], true), (b"c\x01d\x02", false), (b"a\x01e\x02", true), (b"a\x01f\x02", true)]
        {
            properties.read(stored).expect("it is ordinary");
            if is_kept {
                map.push(&properties).expect("it is short");
            }
        }
        let bytes = |text: &[u8]| Some(Buffer::Bytes(text.to_vec()));
        let ends = || Some(Buffer::Int32(vec![0, 1, 2, 3]));
        assert_eq!(map.finish(), [ends(), ends(), bytes(b"aaa"), ends(), bytes(b"bef")]);
    }
}
