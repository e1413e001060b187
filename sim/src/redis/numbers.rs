//! Numbers as Redis reads and writes them.
//!
//! Redis accepts exactly one spelling of each integer, the one it would write itself, and writes a
//! floating point number with the seventeen digits that bring it back unchanged.

/// The integer spelt by `text`, or nothing if it has a plus sign, a leading zero, a space or too
/// many digits.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Counted downwards: the smallest integer has no positive counterpart.
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        let tenfold = number.checked_mul(10)?;
        if negative {
            tenfold.checked_sub(digit)
        } else {
            tenfold.checked_add(digit)
        }
    })
}

/// The floating point number spelt by `text` as C's `strtod` reads it, hexadecimal digits left
/// out; nothing if there is anything else, or if it is too large or too small to be told from
/// infinity or zero.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let digits = text.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next()?;
    let spelt_infinity = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
    let too_large = number.is_infinite() && !spelt_infinity;
    let too_small = number == 0.0 && digits.iter().any(|byte| (b'1'..=b'9').contains(byte));
    (!number.is_nan() && !too_large && !too_small).then_some(number)
}

/// `number` in at most seventeen significant digits, without trailing zeros: C's `%.17g`.
pub(crate) fn format_double(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_nan() {
        return if number.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("formatted with an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).expect("not negative in this range");
        trim(&format!("{number:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_spelling() {
        for good in [
            "0",
            "7",
            "-7",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            assert_eq!(parse_integer(good.as_bytes()), good.parse().ok());
        }
        for bad in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "0x1",
            "1e3",
        ] {
            assert_eq!(parse_integer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_double_is_written_as_c_writes_it() {
        for (number, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (3.3, "3.2999999999999998"),
            (-0.5, "-0.5"),
            (1e20, "1e+20"),
            (123_456_789_012.0, "123456789012"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(number), text);
        }
    }
}
