//! Parses text files of the kernel whose lines consist of a name and a number.

/// Returns the number on the first line whose name is `name`.
pub(super) fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// Tries `names` in their order. Returns the number that follows the first name found in the text.
pub(super) fn first_figure(text: &str, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| figure(text, name))
}

/// Returns the sum of the numbers whose names match; `None` if no name matches.
pub(super) fn sum(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<u64> {
    let mut total = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if let (Some(name), Some(number)) = (words.next(), words.next())
            && is_wanted(name)
            && let Ok(number) = number.parse::<u64>()
        {
            *total.get_or_insert(0_u64) += number;
        }
    }
    total
}
