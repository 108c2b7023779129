//! `config.yaml`: the nodes, their groups, which one is meant when none is named, and who is
//! told what by mail.
//!
//! [`Config::read`] returns all values of the file, or every mistake
//! in it; [`Edit`] changes one thing and leaves every other line as it is. Words of the manual that have no effect yet are refused by name and place,
//! never ignored. Used by the daemon and by the command line.
//!
//! Never done here: reaching a node, expanding `$NAME`, looking at a node's disk.

mod change;
mod config;
mod edit;
mod file;
mod mail;
mod mistake;
mod mlframework;
mod names;
mod notify;
mod origin;
mod owner;
mod read;
mod recipe;
mod scheduling;
mod setting;
mod target;
mod values;

pub use config::{Config, Group, Listen, Node, Place, Size, Word};
pub use edit::{Edit, EditError};
pub use file::{ConfigFile, WriteError};
pub use mail::{Mail, MailLogin, MailSecurity, MailTransport, Smtp, User};
pub use mistake::ConfigError;
pub use mlframework::MlframeworkHosts;
pub use names::{ANY, LOCAL, NameError, check_name};
pub use nero_warden::Kind as Warden;
pub use nero_yaml::{Mistake, Mistakes};
pub use notify::{Notify, NotifyEvent, QuietHours, Webhook};
pub use origin::{From, NODE_VARIABLE, Origin};
pub use setting::{GROUP_SETTINGS, NODE_SETTINGS, SETTINGS};
pub use target::{Target, UnknownTarget};
