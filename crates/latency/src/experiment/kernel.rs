//! The kernel's figures in tables: page cache, stalls and device.

use super::table::Figure;

/// The columns, with the places of the figures in serialised kernel figures.
pub(crate) const KERNEL: [Figure; 10] = [
    Figure::new("dirty/s>8", "/dirtied_pages_per_second", short),
    Figure::new("refault>8", "/refaulted_pages_per_second", short),
    Figure::new("missed/s>8", "/missed_pages_per_second", short),
    Figure::new("mem us/s>8", "/memory_stall_us_per_second", short),
    Figure::new("io us/s>8", "/io_stall_us_per_second", short),
    Figure::new("act MiB>8", "/active_file_pages", |pages| short(pages / 256.0)),
    Figure::new("r ms>8", "/r_await_ms", short),
    Figure::new("w ms>8", "/w_await_ms", short),
    Figure::new("depth>8", "/queue_depth", short),
    Figure::new("busy %>8", "/utilisation", |share| short(share / 0.01)),
];

fn short(figure: f64) -> String {
    if figure >= 10.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_as_the_kernel_has_them() {
        let named = tailwater_io::kernel::Figures::default().named();
        for Figure { place, .. } in KERNEL {
            assert!(named.iter().any(|(name, _)| format!("/{name}") == place), "{place}");
        }
    }
}
