//! The multi-generational LRU, which keeps pages by other rules than those whose effect is shown:
//! off while there is a limit.

use tailwater_io::kernel::System;

use super::files;

const SETTING: &str = "/sys/kernel/mm/lru_gen/enabled";

/// What it was, put back when this is dropped.
#[derive(Debug)]
pub(super) struct Lru {
    system: System,
    was: Option<u32>,
    is_off: bool,
}

impl Lru {
    /// Switches it off, where the kernel has it and it is on.
    pub(super) fn switch_off(system: &System) -> Self {
        let was = mask(system);
        let is_off = match was {
            Some(mask) if mask > 0 => files::write(&system.path(SETTING), "0").is_ok(),
            _ => false,
        };
        Self { system: system.clone(), was, is_off }
    }

    /// What it is to be put back to: 0 if nothing was changed.
    pub(super) fn mask(&self) -> u32 {
        self.was.filter(|_| self.is_off).unwrap_or(0)
    }

    /// What an interruption needs to put it back.
    pub(super) fn back(&self) -> Back {
        Back { system: self.system.clone(), mask: self.mask() }
    }

    /// A sentence for the report, if the kernel has it.
    pub(super) fn describe(&self) -> Option<&'static str> {
        match (self.was?, self.is_off) {
            (0, _) => Some("The multi-generational LRU is off."),
            (_, true) => Some("The multi-generational LRU is switched off meanwhile."),
            (_, false) => Some(
                "The multi-generational LRU is on and cannot be switched off: it protects pages \
                 that are used repeatedly, so that the effect is smaller.",
            ),
        }
    }
}

impl Drop for Lru {
    fn drop(&mut self) {
        put_back(&self.system, self.mask());
    }
}

/// Puts it back once more.
#[derive(Debug)]
pub(super) struct Back {
    system: System,
    mask: u32,
}

impl Back {
    pub(super) fn put_back(&self) {
        put_back(&self.system, self.mask);
    }
}

/// Puts it back to what it was, unless that was off.
pub(super) fn put_back(system: &System, mask: u32) {
    if mask > 0 {
        // Whoever may switch it off may switch it on.
        let _ = files::write(&system.path(SETTING), &format!("{mask:#06x}"));
    }
}

fn mask(system: &System) -> Option<u32> {
    let text = system.word(SETTING)?;
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}
