//! Colours that people with any kind of sight tell apart: those of Okabe and Ito for few
//! curves, and steps of one row from dark to light for many.

use crate::Theme;

/// Red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// Curves that have colours of their own.
pub(crate) const FEW_MAX: usize = 8;

const ON_LIGHT: [Rgb; FEW_MAX] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x40, 0x40, 0x40],
    [0x8f, 0x80, 0x00],
];
const ON_DARK: [Rgb; FEW_MAX] = [
    [0x56, 0xb4, 0xe9],
    [0xff, 0x85, 0x3d],
    [0x1f, 0xc6, 0x9b],
    [0xe0, 0x92, 0xbd],
    [0xf5, 0xb8, 0x2e],
    [0x3d, 0x8f, 0xd6],
    [0xe0, 0xe0, 0xe0],
    [0xf0, 0xe4, 0x42],
];
/// The row of viridis, at even distances.
const ROW: [Rgb; 6] = [
    [0x44, 0x01, 0x54],
    [0x41, 0x44, 0x87],
    [0x2a, 0x78, 0x8e],
    [0x22, 0xa8, 0x84],
    [0x7a, 0xd1, 0x51],
    [0xfd, 0xe7, 0x25],
];

/// The colour of one of several curves.
pub(crate) fn color(theme: Theme, index: usize, of: usize) -> Rgb {
    if of <= FEW_MAX {
        return match theme {
            Theme::Light => ON_LIGHT[index % FEW_MAX],
            Theme::Dark => ON_DARK[index % FEW_MAX],
        };
    }
    // The end that the ground swallows is left out.
    let (first, last) = match theme {
        Theme::Light => (0.0, 4.2),
        Theme::Dark => (1.0, 5.0),
    };
    let at = first + (last - first) * index as f64 / (of - 1) as f64;
    let (below, share) = (at.floor() as usize, at.fract());
    let (one, other) = (ROW[below], ROW[(below + 1).min(ROW.len() - 1)]);
    std::array::from_fn(|part| {
        (f64::from(one[part]) * (1.0 - share) + f64::from(other[part]) * share) as u8
    })
}

/// The nearest of a terminal's 256 colours.
pub(crate) fn of_terminal(color: Rgb) -> u8 {
    let level = |value: u8| match value {
        0..48 => 0,
        48..115 => 1,
        _ => (value - 35) / 40,
    };
    let [red, green, blue] = color.map(level);
    16 + 36 * red + 6 * green + blue
}
