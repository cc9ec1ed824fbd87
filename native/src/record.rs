//! One stored message: where its parts lie. `rocketmq_spark/wire/message/stored_message.py` has the layout.

const V1: i32 = -626_843_481;
const V2: i32 = -626_843_477;

const COMPRESSED: i32 = 0x1;
const BORN_HOST_V6: i32 = 0x10;
const STORE_HOST_V6: i32 = 0x20;
const INNER_BATCH: i32 = 0x80;

/// A message as it is stored; each slice is a part of the pull response body.
pub struct Record<'a> {
    pub total_bytes: usize,
    pub body_crc: i32,
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub commit_log_offset: i64,
    pub stored_sys_flag: i32,
    pub born_timestamp_ms: i64,
    /// IP and port: 8 or 20 bytes.
    pub born_host: &'a [u8],
    pub store_timestamp_ms: i64,
    /// IP and port: 8 or 20 bytes.
    pub store_host: &'a [u8],
    pub reconsume_times: i32,
    pub stored_body: &'a [u8],
    pub topic: &'a [u8],
    pub properties: &'a [u8],
}

impl<'a> Record<'a> {
    /// The parts of a record that is exactly as long as `bytes`.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let _total_bytes = reader.i32()?;
        let magic = reader.i32()?;
        let body_crc = reader.i32()?;
        let queue_id = reader.i32()?;
        let flag = reader.i32()?;
        let queue_offset = reader.i64()?;
        let commit_log_offset = reader.i64()?;
        let stored_sys_flag = reader.i32()?;
        let born_timestamp_ms = reader.i64()?;
        let born_host = reader.take(host_bytes(stored_sys_flag & BORN_HOST_V6 != 0))?;
        let store_timestamp_ms = reader.i64()?;
        let store_host = reader.take(host_bytes(stored_sys_flag & STORE_HOST_V6 != 0))?;
        let reconsume_times = reader.i32()?;
        let _prepared_transaction_offset = reader.i64()?;
        let body_bytes = reader.i32()?;
        let stored_body = reader.take(body_bytes.try_into().ok()?)?;
        let topic_bytes = match magic {
            V1 => reader.i8()?.into(),
            V2 => reader.i16()?,
            _ => return None,
        };
        let topic = reader.take(topic_bytes.try_into().ok()?)?;
        let properties_bytes = reader.i16()?;
        let properties = reader.take(properties_bytes.try_into().ok()?)?;
        reader.0.is_empty().then_some(Self {
            total_bytes: bytes.len(),
            body_crc,
            queue_id,
            flag,
            queue_offset,
            commit_log_offset,
            stored_sys_flag,
            born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            stored_body,
            topic,
            properties,
        })
    }

    /// Whether a broker may have given it several queue offsets.
    pub fn is_inner_batch(&self) -> bool {
        self.stored_sys_flag & INNER_BATCH != 0
    }

    /// Whether its body is not what the producer sent.
    pub fn is_compressed(&self) -> bool {
        self.stored_sys_flag & COMPRESSED != 0 && !self.stored_body.is_empty()
    }

    /// Without the bit that asks for decompression, where there is something to decompress.
    pub fn sys_flag(&self) -> i32 {
        if self.stored_body.is_empty() { self.stored_sys_flag } else { self.stored_sys_flag & !COMPRESSED }
    }
}

/// Hands out the records of a body, one after another.
pub fn each_record<'a>(body: &'a [u8], mut take: impl FnMut(&Record<'a>) -> Option<()>) -> Option<()> {
    let mut rest = body;
    while !rest.is_empty() {
        let total_bytes = i32::from_be_bytes(*rest.first_chunk()?);
        let (record, after) = rest.split_at_checked(total_bytes.try_into().ok()?)?;
        take(&Record::parse(record)?)?;
        rest = after;
    }
    Some(())
}

fn host_bytes(is_ipv6: bool) -> usize {
    if is_ipv6 { 20 } else { 8 }
}

/// What is left of some bytes; nothing is read beyond their end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"hello";
    const TOPIC: &[u8] = b"T";
    const PROPERTIES: &[u8] = b"a\x01b\x02";

    fn stored(magic: i32, sys_flag: i32) -> Vec<u8> {
        let mut rest = Vec::new();
        for number in [magic, 99, 3, 5] {
            rest.extend(number.to_be_bytes());
        }
        rest.extend(7_i64.to_be_bytes());
        rest.extend(0xABC_i64.to_be_bytes());
        rest.extend(sys_flag.to_be_bytes());
        rest.extend(11_i64.to_be_bytes());
        rest.extend(vec![1; host_bytes(sys_flag & BORN_HOST_V6 != 0)]);
        rest.extend(12_i64.to_be_bytes());
        rest.extend(vec![2; host_bytes(sys_flag & STORE_HOST_V6 != 0)]);
        rest.extend(2_i32.to_be_bytes());
        rest.extend(0_i64.to_be_bytes());
        rest.extend((BODY.len() as i32).to_be_bytes());
        rest.extend(BODY);
        if magic == V2 {
            rest.push(0);
        }
        rest.push(TOPIC.len() as u8);
        rest.extend(TOPIC);
        rest.extend((PROPERTIES.len() as i16).to_be_bytes());
        rest.extend(PROPERTIES);
        let total_bytes = rest.len() as i32 + 4;
        [total_bytes.to_be_bytes().to_vec(), rest].concat()
    }

    fn count(body: &[u8]) -> Option<usize> {
        let mut found = 0;
        each_record(body, |_| {
            found += 1;
            Some(())
        })?;
        Some(found)
    }

    #[test]
    fn each_part_is_where_it_is() {
        for (magic, sys_flag) in [(V1, 0), (V2, 0), (V1, BORN_HOST_V6), (V2, BORN_HOST_V6 | STORE_HOST_V6)] {
            let body = stored(magic, sys_flag);
            let record = Record::parse(&body).expect("it is whole");
            assert_eq!((record.body_crc, record.queue_id, record.flag, record.reconsume_times), (99, 3, 5, 2));
            assert_eq!((record.queue_offset, record.commit_log_offset), (7, 0xABC));
            assert_eq!((record.born_timestamp_ms, record.store_timestamp_ms), (11, 12));
            assert!(record.born_host.iter().all(|&byte| byte == 1));
            assert!(record.store_host.iter().all(|&byte| byte == 2));
            assert_eq!((record.stored_body, record.topic, record.properties), (BODY, TOPIC, PROPERTIES));
        }
    }

    #[test]
    fn several_records_follow_each_other() {
        assert_eq!(count(b""), Some(0));
        assert_eq!(count(&stored(V1, 0).repeat(3)), Some(3));
    }

    #[test]
    fn a_body_cut_anywhere_else_is_refused() {
        let two = [stored(V1, 0), stored(V2, STORE_HOST_V6)].concat();
        let first_bytes = stored(V1, 0).len();
        for length in 0..two.len() {
            assert_eq!(count(&two[..length]).is_some(), length == 0 || length == first_bytes, "{length}");
        }
    }

    #[test]
    fn a_record_must_be_as_long_as_its_parts() {
        let mut longer = stored(V1, 0);
        longer.push(0);
        let total_bytes = longer.len() as i32;
        longer[..4].copy_from_slice(&total_bytes.to_be_bytes());
        assert_eq!(count(&longer), None);
        assert_eq!(count(&stored(V1 + 1, 0)), None);
    }

    #[test]
    fn an_empty_body_keeps_the_bit_of_a_compressed_one() {
        let body = stored(V1, COMPRESSED);
        let mut record = Record::parse(&body).expect("it is whole");
        assert_eq!((record.is_compressed(), record.sys_flag()), (true, 0));
        record.stored_body = b"";
        assert_eq!((record.is_compressed(), record.sys_flag()), (false, COMPRESSED));
    }
}
