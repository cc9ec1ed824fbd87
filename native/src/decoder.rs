//! All wanted columns of many pull response bodies, in one pass.

use crate::columns::{Buffers, Column, named_by};
use crate::properties::{Known, Properties};
use crate::record::{Record, each_record};

const DATA_LIMIT_BYTES: usize = 1 << 31;

/// What is wanted of each pull: as `rocketmq_spark.wire.arrow.columns.ColumnDecoder` has it.
pub struct Decoder {
    fields: Vec<String>,
    named: Vec<String>,
    broker_name: String,
    tags: Option<Vec<String>>,
}

/// How many messages, and of each column its buffers.
pub type Batch = (usize, Vec<Buffers>);

impl Decoder {
    /// None if one of `fields`, attributes of `MessageExt` or `properties.NAME`, is no column.
    pub fn new(fields: Vec<String>, broker_name: String, tags: Option<Vec<String>>) -> Option<Self> {
        let named = fields.iter().filter_map(|field| named_by(field)).map(String::from).collect();
        let decoder = Self { fields, named, broker_name, tags };
        decoder.new_columns()?;
        Some(decoder)
    }

    /// The messages with queue offsets in `[begin_offset, end_offset)`, in order. `answered`: for each body the offsets
    /// `[begin, next)` that it is the answer to; empty where that is not known.
    pub fn decode(
        &self,
        bodies: &[&[u8]],
        begin_offset: i64,
        end_offset: i64,
        answered: &[(i64, i64)],
    ) -> Option<Batch> {
        let data_bytes = bodies.iter().try_fold(0_usize, |sum, body| sum.checked_add(body.len()))?;
        if data_bytes >= DATA_LIMIT_BYTES {
            return None;
        }
        let most_rows = end_offset.saturating_sub(begin_offset).try_into().unwrap_or_default();
        let mut growing = self.new_batch(data_bytes, most_rows);
        self.add(&mut growing, bodies, begin_offset, end_offset, answered)?;
        Some(growing.finish())
    }

    /// A batch without messages. So many bytes of bodies are expected, and no more than so many messages.
    pub fn new_batch(&self, data_bytes: usize, most_rows: usize) -> Growing {
        let columns = self.new_columns().unwrap_or_default();
        Growing { columns, row_count: 0, data_bytes, most_rows, names_version: 0 }
    }

    /// Appends what `decode` gives. What it refuses changes nothing.
    pub fn add(
        &self,
        growing: &mut Growing,
        bodies: &[&[u8]],
        begin_offset: i64,
        end_offset: i64,
        answered: &[(i64, i64)],
    ) -> Option<()> {
        let row_count = growing.row_count;
        let added = self.try_to_add(growing, bodies, begin_offset, end_offset, answered);
        if added.is_none() {
            growing.truncate(row_count);
        }
        added
    }

    fn try_to_add(
        &self,
        growing: &mut Growing,
        bodies: &[&[u8]],
        begin_offset: i64,
        end_offset: i64,
        answered: &[(i64, i64)],
    ) -> Option<()> {
        let needs_properties = self.tags.is_some() || growing.columns.iter().any(Column::needs_properties);
        let needs_body = growing.columns.iter().any(Column::needs_body);
        let mut properties = Properties::after(growing.names_version, &self.named);
        for (number, body) in bodies.iter().enumerate() {
            let mut places = Places::of(if self.tags.is_none() { answered.get(number) } else { None });
            each_record(body, |record| {
                places.count(record);
                if record.is_inner_batch() {
                    return None;
                }
                if !(begin_offset..end_offset).contains(&record.queue_offset) {
                    return Some(());
                }
                if needs_body && record.is_compressed() {
                    return None;
                }
                if needs_properties {
                    properties.read(record.properties)?;
                }
                if self.tags.as_ref().is_some_and(|tags| !has_one_of(tags, &properties)) {
                    return Some(());
                }
                growing.push(record, &properties)
            })?;
            places.are_as_stored().then_some(())?;
        }
        growing.names_version = properties.names_version();
        Some(())
    }

    fn new_columns(&self) -> Option<Vec<Column>> {
        self.fields.iter().map(|field| Column::of_field(field, self.broker_name.as_bytes(), &self.named)).collect()
    }
}

/// Whether the messages of an answer are at the queue offsets that are stored in them.
struct Places {
    next: i64,
    end: i64,
    differs: bool,
}

impl Places {
    /// Of the offsets that an answer with all of their messages has; without any, nothing is known.
    fn of(answered: Option<&(i64, i64)>) -> Self {
        let (next, end) = answered.copied().unwrap_or((0, -1));
        Self { next, end, differs: false }
    }

    fn count(&mut self, record: &Record) {
        self.differs |= record.queue_offset != self.next;
        self.next = self.next.wrapping_add(1);
    }

    /// Where there are fewer messages, or more, than offsets, their places cannot be counted.
    fn are_as_stored(&self) -> bool {
        !self.differs || self.next != self.end
    }
}

/// The columns of the messages so far.
pub struct Growing {
    columns: Vec<Column>,
    row_count: usize,
    data_bytes: usize,
    most_rows: usize,
    names_version: u64,
}

impl Growing {
    pub fn finish(self) -> Batch {
        (self.row_count, self.columns.into_iter().map(Column::finish).collect())
    }

    fn push(&mut self, record: &Record, properties: &Properties) -> Option<()> {
        for column in &mut self.columns {
            column.push(record, properties)?;
        }
        self.row_count += 1;
        if self.row_count == 1 {
            // Most are as long as the first. What it has fits as often into the data as it does itself.
            let rows = (self.data_bytes / record.total_bytes).min(self.most_rows);
            self.columns.iter_mut().for_each(|column| column.expect(rows));
        }
        Some(())
    }

    fn truncate(&mut self, row_count: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(row_count));
        self.row_count = row_count;
    }
}

fn has_one_of(tags: &[String], properties: &Properties) -> bool {
    properties.value(Known::Tags).is_some_and(|found| tags.iter().any(|tag| tag.as_bytes() == found))
}
