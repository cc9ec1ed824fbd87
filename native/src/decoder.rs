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

    /// The messages with queue offsets in `[begin_offset, end_offset)`, in order.
    pub fn decode(&self, bodies: &[&[u8]], begin_offset: i64, end_offset: i64) -> Option<Batch> {
        let data_bytes = bodies.iter().try_fold(0_usize, |sum, body| sum.checked_add(body.len()))?;
        if data_bytes >= DATA_LIMIT_BYTES {
            return None;
        }
        let mut growing = self.nothing_yet(data_bytes)?;
        for body in bodies {
            each_record(body, |record| {
                let is_wanted = (begin_offset..end_offset).contains(&record.queue_offset);
                if record.is_inner_batch() {
                    None
                } else if is_wanted {
                    growing.add(record)
                } else {
                    Some(())
                }
            })?;
        }
        Some((growing.row_count, growing.columns.into_iter().map(Column::finish).collect()))
    }

    fn nothing_yet<'a>(&self, data_bytes: usize) -> Option<Growing<'a, '_>> {
        let columns = self.new_columns()?;
        Some(Growing {
            needs_properties: self.tags.is_some() || columns.iter().any(Column::needs_properties),
            needs_body: columns.iter().any(Column::needs_body),
            tags: self.tags.as_deref(),
            properties: Properties::with_named(&self.named),
            columns,
            row_count: 0,
            data_bytes,
        })
    }

    fn new_columns(&self) -> Option<Vec<Column>> {
        self.fields.iter().map(|field| Column::of_field(field, self.broker_name.as_bytes(), &self.named)).collect()
    }
}

/// The columns of the messages so far.
struct Growing<'a, 'd> {
    needs_properties: bool,
    needs_body: bool,
    tags: Option<&'d [String]>,
    properties: Properties<'a, 'd>,
    columns: Vec<Column>,
    row_count: usize,
    data_bytes: usize,
}

impl<'a> Growing<'a, '_> {
    fn add(&mut self, record: &Record<'a>) -> Option<()> {
        if self.needs_body && record.is_compressed() {
            return None;
        }
        if self.needs_properties {
            self.properties.read(record.properties)?;
        }
        if self.tags.is_some_and(|tags| !has_one_of(tags, &self.properties)) {
            return Some(());
        }
        for column in &mut self.columns {
            column.push(record, &self.properties)?;
        }
        self.row_count += 1;
        if self.row_count == 1 {
            // Most are as long as the first. What it has fits as often into the data as it does itself.
            let rows = self.data_bytes / record.total_bytes;
            self.columns.iter_mut().for_each(|column| column.expect(rows));
        }
        Some(())
    }
}

fn has_one_of(tags: &[String], properties: &Properties) -> bool {
    properties.value(Known::Tags).is_some_and(|found| tags.iter().any(|tag| tag.as_bytes() == found))
}
