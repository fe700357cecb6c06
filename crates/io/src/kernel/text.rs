//! Text as the kernel writes it: lines of a name and a number.

/// The number behind a name.
pub(super) fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// The first of these names that there is.
pub(super) fn first_figure(text: &str, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| figure(text, name))
}

/// The sum of all figures whose names are wanted; `None` if there is none.
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
