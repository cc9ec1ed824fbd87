//! The properties of one message after another: `name 0x01 value 0x02 name 0x01 value 0x02 ...`.
//!
//! Messages of one producer mostly have the same names in the same order. Then those of the last message are only
//! compared with.

const SPLIT: u8 = 0x01;
const END: u8 = 0x02;
const PROPERTIES_LIMIT: usize = 256;

/// Properties that are columns of their own, or parts of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Tags,
    Keys,
    UniqKey,
    RetryTopic,
    OriginMessageId,
}

const KNOWN: [(Known, &[u8]); 5] = [
    (Known::Tags, b"TAGS"),
    (Known::Keys, b"KEYS"),
    (Known::UniqKey, b"UNIQ_KEY"),
    (Known::RetryTopic, b"RETRY_TOPIC"),
    (Known::OriginMessageId, b"ORIGIN_MESSAGE_ID"),
];

/// What the message has that was read last. The properties `named` can be asked for by their numbers.
#[derive(Default)]
pub struct Properties<'a, 'n> {
    pairs: Vec<(&'a [u8], &'a [u8])>,
    places: [Option<usize>; KNOWN.len()],
    named: &'n [String],
    named_places: Vec<Option<usize>>,
    names_version: u64,
}

impl<'a, 'n> Properties<'a, 'n> {
    /// Those of messages that come after others, whose names had this version.
    pub fn after(names_version: u64, named: &'n [String]) -> Self {
        Self { names_version, named, named_places: vec![None; named.len()], ..Self::default() }
    }

    /// Takes the place of what was read before. Refused: what is no UTF-8, a name that repeats, too many.
    pub fn read(&mut self, stored: &'a [u8]) -> Option<()> {
        std::str::from_utf8(stored).ok()?;
        match self.follow(stored) {
            Some(()) => Some(()),
            None => self.split(stored),
        }
    }

    /// Names and values, none empty, in their order.
    pub fn pairs(&self) -> &[(&'a [u8], &'a [u8])] {
        &self.pairs
    }

    /// As long as this stays the same, so do the names.
    pub fn names_version(&self) -> u64 {
        self.names_version
    }

    /// The value, if there is one.
    pub fn value(&self, known: Known) -> Option<&'a [u8]> {
        let place = (*self.places.get(known as usize)?)?;
        self.pairs.get(place).map(|&(_, value)| value)
    }

    /// The value of the property `named` so, if there is one.
    pub fn named_value(&self, number: usize) -> Option<&'a [u8]> {
        let place = (*self.named_places.get(number)?)?;
        self.pairs.get(place).map(|&(_, value)| value)
    }

    /// With the names of the message before.
    fn follow(&mut self, stored: &'a [u8]) -> Option<()> {
        let mut rest = stored;
        for (name, value) in &mut self.pairs {
            let [SPLIT, after @ ..] = rest.strip_prefix(*name)? else { return None };
            (*value, rest) = until(END, after);
            if value.is_empty() {
                return None;
            }
        }
        rest.is_empty().then_some(())
    }

    fn split(&mut self, stored: &'a [u8]) -> Option<()> {
        self.names_version += 1;
        self.pairs.clear();
        let mut rest = stored;
        while !rest.is_empty() {
            let (property, after) = until(END, rest);
            let (name, value) = until(SPLIT, property);
            if !name.is_empty() && !value.is_empty() {
                self.add(name, value)?;
            }
            rest = after;
        }
        let place_of = |wanted: &[u8]| self.pairs.iter().position(|&(name, _)| name == wanted);
        self.places = KNOWN.map(|(_, known)| place_of(known));
        self.named_places = self.named.iter().map(|name| place_of(name.as_bytes())).collect();
        Some(())
    }

    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Option<()> {
        if self.pairs.len() == PROPERTIES_LIMIT || self.pairs.iter().any(|&(other, _)| other == name) {
            return None;
        }
        self.pairs.push((name, value));
        Some(())
    }
}

/// What is before the first `byte`, and what is after it; all and nothing if there is none.
fn until(byte: u8, text: &[u8]) -> (&[u8], &[u8]) {
    find(byte, text).and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))).unwrap_or((text, &[]))
}

/// Where the first `byte` is. Eight bytes at a time: a zero byte is the lowest that borrows.
fn find(byte: u8, text: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (eights, rest) = text.as_chunks::<8>();
    for (number, eight) in eights.iter().enumerate() {
        let difference = u64::from_le_bytes(*eight) ^ (LOW * u64::from(byte));
        let zeros = difference.wrapping_sub(LOW) & !difference & HIGH;
        if zeros != 0 {
            return Some(number * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&other| other == byte).map(|at| text.len() - rest.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

    fn read(stored: &[u8]) -> Option<Pairs<'_>> {
        let mut properties = Properties::default();
        properties.read(stored)?;
        Some(properties.pairs)
    }

    /// The same in the plainest way.
    fn expected(stored: &[u8]) -> Pairs<'_> {
        let parts = stored.split(|&byte| byte == END);
        let pairs = parts.filter_map(|part| {
            let at = part.iter().position(|&byte| byte == SPLIT)?;
            Some((&part[..at], &part[at + 1..]))
        });
        pairs.filter(|(name, value)| !name.is_empty() && !value.is_empty()).collect()
    }

    #[test]
    fn the_first_byte_is_found_wherever_it_is() {
        for length in 0..40 {
            for at in 0..length {
                let mut text = vec![0x03; length];
                text[at] = END;
                assert_eq!(find(END, &text), Some(at));
                text[length - 1] = END;
                assert_eq!(find(END, &text), Some(at));
            }
            assert_eq!(find(END, &vec![0x01; length]), None);
        }
    }

    #[test]
    fn what_has_no_name_or_no_value_vanishes() {
        for stored in
            [&b""[..], b"\x02", b"a\x01", b"\x01b\x02", b"a", b"a\x01\x02b\x01c\x02d", b"a\x01b\x01c\x02e\x01f"]
        {
            assert_eq!(read(stored), Some(expected(stored)), "{stored:?}");
        }
    }

    #[test]
    fn what_follows_other_names_is_read_as_if_it_came_first() {
        let rows: [&[u8]; 12] = [
            b"a\x01b\x02TAGS\x01x\x02",
            b"a\x01c\x02TAGS\x01yy\x02",
            b"a\x01c\x02TAGS\x01yy",
            b"a\x01\x02TAGS\x01yy\x02",
            b"a\x01c\x02",
            b"a\x01c\x02TAGS\x01z\x02more\x01m\x02",
            b"aa\x01c\x02TAGS\x01z\x02",
            b"a\x01c\x02TAGSS\x01z\x02",
            b"",
            b"\x02",
            b"TAGS\x01x\x02a\x01b\x02",
            b"a\x01c",
        ];
        for first in rows {
            for second in rows {
                let mut properties = Properties::default();
                properties.read(first).expect("it is ordinary");
                let before = (properties.names_version, properties.pairs.clone());
                properties.read(second).expect("it is ordinary");
                assert_eq!(properties.pairs, expected(second));
                let tags = properties.pairs.iter().find(|(name, _)| *name == b"TAGS").map(|&(_, value)| value);
                assert_eq!(properties.value(Known::Tags), tags);
                let names = |pairs: &Pairs| pairs.iter().map(|pair| pair.0.to_vec()).collect::<Vec<_>>();
                if properties.names_version == before.0 {
                    assert_eq!(names(&properties.pairs), names(&before.1));
                }
            }
        }
    }

    #[test]
    fn each_known_name_has_its_place() {
        for (number, (known, name)) in KNOWN.into_iter().enumerate() {
            assert_eq!(known as usize, number);
            let stored = [b"first\x011\x02", name, b"\x01value\x02"].concat();
            let mut properties = Properties::default();
            properties.read(&stored).expect("it is ordinary");
            assert_eq!(properties.value(known), Some(&b"value"[..]));
            for (other, _) in KNOWN.into_iter().filter(|(other, _)| *other != known) {
                assert_eq!(properties.value(other), None);
            }
        }
    }

    #[test]
    fn a_named_property_has_its_place_as_long_as_it_is_there() {
        let named = ["b", "none", "a"].map(String::from);
        let mut properties = Properties::after(0, &named);
        let found =
            |properties: &Properties| [0, 1, 2, 3].map(|number| properties.named_value(number).map(<[u8]>::to_vec));
        let value = |text: &[u8]| Some(text.to_vec());
        assert_eq!(found(&properties), [None, None, None, None]);
        for (stored, expected) in [
            (&b"a\x011\x02b\x012\x02"[..], [value(b"2"), None, value(b"1"), None]),
            (b"a\x013\x02b\x014\x02", [value(b"4"), None, value(b"3"), None]),
            (b"b\x015\x02a\x016\x02", [value(b"5"), None, value(b"6"), None]),
            (b"bb\x017\x02", [None, None, None, None]),
            (b"b\x018\x02", [value(b"8"), None, None, None]),
        ] {
            properties.read(stored).expect("it is ordinary");
            assert_eq!(found(&properties), expected);
        }
    }

    #[test]
    fn what_is_odd_is_refused() {
        assert_eq!(read(b"a\x01b\x02a\x01c\x02"), None);
        assert_eq!(read(b"a\x01\xff\x02"), None);
        let many: Vec<u8> = (0..=PROPERTIES_LIMIT).flat_map(|n| format!("{n}\x01v\x02").into_bytes()).collect();
        assert_eq!(read(&many), None);
        let fewer = &many[..many.len() - "256\x01v\x02".len()];
        assert_eq!(read(fewer).map(|pairs| pairs.len()), Some(PROPERTIES_LIMIT));
    }
}
