//! Books as programs write them, and as we write into them. The samples in `golden` were made by
//! openpyxl 3.1, XlsxWriter 3.3 and LibreOffice 7.4; an independent reader tells what they hold.

mod csv;
mod disk;
mod kinds;
mod ods;
mod random;
mod refused;
mod rig;
mod xlsx;
