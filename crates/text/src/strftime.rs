//! Dates for templates that state today's.

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Formats a time (seconds since 1970, UTC) by C's `strftime` codes, in English.
///
/// `None` for a code that is not known or a year outside 0..=9999.
pub(crate) fn strftime(format: &str, seconds: i64) -> Option<String> {
    let days = seconds.div_euclid(86_400);
    let second_of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    let (year, month, day) = civil(days)?;
    let weekday = DAYS.get(usize::try_from((days + 4).rem_euclid(7)).ok()?)?;
    let month_name = MONTHS.get(usize::try_from(month - 1).ok()?)?;
    let hour12 = (hour + 11) % 12 + 1;

    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(character) = chars.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut code = chars.next()?;
        // `%-d`: without the leading zero.
        let bare = code == '-';
        if bare {
            code = chars.next()?;
        }
        let two = |value: i64| {
            if bare {
                value.to_string()
            } else {
                format!("{value:02}")
            }
        };
        out.push_str(&match code {
            'Y' => year.to_string(),
            'y' => two(year % 100),
            'm' => two(month),
            'd' => two(day),
            'e' => format!("{day:2}"),
            'H' => two(hour),
            'I' => two(hour12),
            'M' => two(minute),
            'S' => two(second),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_string(),
            'B' => month_name.to_string(),
            'b' | 'h' => month_name[..3].to_string(),
            'A' => weekday.to_string(),
            'a' => weekday[..3].to_string(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'Z' => "UTC".to_string(),
            'z' => "+0000".to_string(),
            '%' => "%".to_string(),
            _ => return None,
        });
    }
    Some(out)
}

/// Days since 1970-01-01 to (year, month, day), in the Gregorian calendar.
fn civil(days: i64) -> Option<(i64, i64, i64)> {
    // Years are counted from 1 March, so that the leap day is the last; an era has 400 of them.
    let shifted = days.checked_add(719_468)?;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (0..=9999).contains(&year).then_some((year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS`.
        for (seconds, expected) in [
            (0, "Thu 01 January 1970 00:00:00 AM"),
            (951_782_400, "Tue 29 February 2000 00:00:00 AM"),
            (1_767_225_599, "Wed 31 December 2025 23:59:59 PM"),
            (-1, "Wed 31 December 1969 23:59:59 PM"),
            (4_107_542_400, "Mon 01 March 2100 00:00:00 AM"),
        ] {
            assert_eq!(
                strftime("%a %d %B %Y %T %p", seconds).as_deref(),
                Some(expected)
            );
        }
        assert_eq!(
            strftime("%d %b %Y, %-m/%-d %I%%", 1_700_000_000).as_deref(),
            Some("14 Nov 2023, 11/14 10%")
        );
        assert_eq!(strftime("%Q", 0), None);
        assert_eq!(strftime("%", 0), None);
        assert_eq!(strftime("%Y", i64::MAX), None);
    }
}
