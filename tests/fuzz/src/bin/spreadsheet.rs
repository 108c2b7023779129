#![no_main]

nero_fuzz::fuzz!(nero_laws::SPREADSHEET);
