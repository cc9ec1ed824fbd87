//! Ordinary answers to pulls, recognised by their headers: the twin of `wire/remoting/fast_path_response.py`.

use std::ops::Range;

/// How many numbers of a header are read.
pub const WANTED: usize = 4;

const MOST_DIGITS: usize = 18;

/// Where a number stands: behind these bytes. `wanted`: which one it is; None if it is passed over.
pub struct Place {
    pub before: Vec<u8>,
    pub wanted: Option<usize>,
}

/// The header that ordinary answers have, but for its numbers.
pub struct Template {
    places: Vec<Place>,
    rest: Vec<u8>,
}

/// What is read of an answer. Positions are those in what was received.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub numbers: [i64; WANTED],
    pub body: Range<usize>,
}

impl Template {
    /// None if one of the places is of none that are `WANTED`.
    pub fn new(places: Vec<Place>, rest: Vec<u8>) -> Option<Self> {
        let is_known = |place: &Place| place.wanted.is_none_or(|number| number < WANTED);
        places.iter().all(is_known).then_some(Self { places, rest })
    }

    /// The answer whose length is at the beginning of `received[begin..end]`; None if it is not whole, or not ordinary.
    pub fn read(&self, received: &[u8], begin: usize, end: usize) -> Option<Answer> {
        let (length, after) = received.get(begin..end)?.split_first_chunk()?;
        let frame = after.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        let (length, after) = frame.split_first_chunk()?;
        let (header, body) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        let numbers = self.numbers(header)?;
        let body_end = begin + size_of::<u32>() + frame.len();
        Some(Answer { numbers, body: body_end - body.len()..body_end })
    }

    fn numbers(&self, header: &[u8]) -> Option<[i64; WANTED]> {
        let mut numbers = [0; WANTED];
        let mut rest = header;
        for place in &self.places {
            let (number, after) = number(rest.strip_prefix(place.before.as_slice())?)?;
            rest = after;
            if let Some(wanted) = place.wanted.and_then(|wanted| numbers.get_mut(wanted)) {
                *wanted = number;
            }
        }
        (rest == self.rest).then_some(numbers)
    }
}

/// As Java writes it, and what is behind it. Refused: longer ones, and those below 0.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(count)?;
    let is_ordinary = match digits {
        [] | [b'0', _, ..] => false,
        _ => count <= MOST_DIGITS,
    };
    is_ordinary.then(|| (digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = br#"{"a":"7","opaque":12,"b":"0"}"#;

    fn template() -> Template {
        let places = [(&br#"{"a":""#[..], Some(2)), (br#"","opaque":"#, Some(0)), (br#","b":""#, None)];
        let places = places.map(|(before, wanted)| Place { before: before.to_vec(), wanted });
        Template::new(places.into(), br#""}"#.to_vec()).expect("they are wanted")
    }

    fn framed(header: &[u8], body: &[u8]) -> Vec<u8> {
        let length = |count: usize| u32::try_from(count).expect("it is short").to_be_bytes();
        [&length(4 + header.len() + body.len()), &length(header.len()), header, body].concat()
    }

    #[test]
    fn an_answer_is_read_where_it_lies() {
        let frame = framed(HEADER, b"body");
        let received = [b"before", frame.as_slice(), b"behind"].concat();
        let end = received.len() - b"behind".len();
        let expected = || Answer { numbers: [12, 0, 7, 0], body: end - 4..end };
        for to in [end, end + 3] {
            assert_eq!(template().read(&received, 6, to), Some(expected()));
        }
        for to in 0..end {
            assert_eq!(template().read(&received, 6, to), None, "it is not whole");
        }
        assert_eq!(template().read(&received, 6, received.len() + 1), None);
    }

    #[test]
    fn a_header_that_is_longer_than_its_frame_is_none() {
        let mut frame = framed(HEADER, b"");
        frame[7] += 1;
        assert_eq!(template().read(&frame, 0, frame.len()), None);
    }

    #[test]
    fn numbers_are_as_java_writes_them() {
        for (text, expected) in [
            (&b"0,"[..], Some((0, &b","[..]))),
            (b"90}", Some((90, b"}"))),
            (b"999999999999999999", Some((999_999_999_999_999_999, b""))),
            (b"1000000000000000000", None),
            (b"00", None),
            (b"01", None),
            (b"-1", None),
            (b"+1", None),
            (b"", None),
            (b"\xd9\xa1", None),
        ] {
            assert_eq!(number(text), expected);
        }
    }

    #[test]
    fn another_header_is_none() {
        for other in [
            &br#"{"a":"7","opaque":12,"b":"0"}}"#[..],
            br#"{"a":"7","opaque":12,"c":"0"}"#,
            br#"{"a":"7","opaque":12,"b":"0""#,
            br#"{"a":"7","opaque":,"b":"0"}"#,
            b"",
        ] {
            let frame = framed(other, b"body");
            assert_eq!(template().read(&frame, 0, frame.len()), None);
        }
    }

    #[test]
    fn no_place_is_of_a_number_that_nobody_wants() {
        let place = Place { before: Vec::new(), wanted: Some(WANTED) };
        assert!(Template::new(vec![place], Vec::new()).is_none());
    }
}
