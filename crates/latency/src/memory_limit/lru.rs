//! Disables the kernel's multi-generational LRU while a limit exists. The experiments examine how
//! the kernel's classic active and inactive LRU lists evict pages.

use tailwater_io::kernel::System;

use crate::files;

const SETTING: &str = "/sys/kernel/mm/lru_gen/enabled";

/// The kernel's setting of the multi-generational LRU, as it was before the memory limit was
/// created. Dropping this struct restores that setting.
#[derive(Debug)]
pub(super) struct Lru {
    system: System,
    was: Option<u32>,
    is_off: bool,
}

impl Lru {
    /// Disables the multi-generational LRU if the kernel has it, it is enabled and this process is
    /// permitted to change it.
    pub(super) fn switch_off(system: &System) -> Self {
        let was = mask(system);
        let is_off = match was {
            Some(mask) if mask > 0 => files::write_setting(&system.path(SETTING), "0").is_ok(),
            _ => false,
        };
        Self { system: system.clone(), was, is_off }
    }

    /// Returns the setting (a bit mask) to restore, or 0 if the setting was not changed.
    pub(super) fn mask(&self) -> u32 {
        self.was.filter(|_| self.is_off).unwrap_or(0)
    }

    /// Returns a sentence for the report that says whether the multi-generational LRU is enabled;
    /// `None` if the kernel does not have it.
    pub(super) fn describe(&self) -> Option<&'static str> {
        match (self.was?, self.is_off) {
            (0, _) => Some("The multi-generational LRU is off."),
            (_, true) => Some("The multi-generational LRU is switched off during the runs."),
            (_, false) => Some(
                "The multi-generational LRU is on and cannot be switched off: it protects pages \
                 that are used repeatedly, which reduces the effect.",
            ),
        }
    }
}

impl Drop for Lru {
    fn drop(&mut self) {
        put_back(&self.system, self.mask());
    }
}

/// Restores the setting `mask`, or does nothing if `mask` is 0.
pub(super) fn put_back(system: &System, mask: u32) {
    if mask > 0 {
        // Ignore errors: a process that was permitted to disable the LRU is also permitted to
        // enable it.
        let _ = files::write_setting(&system.path(SETTING), &format!("{mask:#06x}"));
    }
}

fn mask(system: &System) -> Option<u32> {
    let text = system.word(SETTING)?;
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}
