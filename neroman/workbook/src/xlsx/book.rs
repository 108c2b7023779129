//! The parts of a workbook: its sheets, their tables, its shared texts.

use crate::error::WorkbookError;
use crate::formula::{NamedAreas, Reads, Sheets, TableArea};
use crate::package::Package;
use crate::place::Rect;
use crate::xml::{Elements, Splice, XmlError, XmlStep, local, meaning, prefix};

use super::scan::CellSources;
use super::styles;
use super::text::{decoded, shared};

#[derive(Debug)]
pub(super) struct Book {
    /// Name of the part that lists the sheets.
    pub part: String,
    pub xml: String,
    pub sheets: Vec<SheetPart>,
    /// Index of the first sheet that is not hidden.
    first_seen: usize,
    /// Name of the part with the shared texts; empty where there is none.
    strings: String,
    /// The same with the formats of cells.
    styles: String,
    /// Whether a part lists all cells with formulas.
    pub has_chain: bool,
    /// Whether days count from 1904.
    is_1904: bool,
    pub is_signed: bool,
}

#[derive(Debug)]
pub(super) struct SheetPart {
    pub name: String,
    pub part: String,
}

/// One line of a list of relations.
#[derive(Debug)]
struct Relation {
    id: String,
    kind: String,
    target: String,
}

impl Book {
    pub fn read(package: &mut Package<'_>) -> Result<Self, WorkbookError> {
        let top = relations(package, "")?;
        let is_signed = package.has(|name| name.starts_with("_xmlsignatures/"))
            || top.iter().any(|one| one.is("/digital-signature/origin"));
        let Some(main) = top.into_iter().find(|one| one.is("/officeDocument")) else {
            return Err(WorkbookError::Missing {
                what: "relation to its main part",
            });
        };
        let part = main.target;
        if part.ends_with(".bin") {
            return Err(WorkbookError::ReadOnly { format: ".xlsb" });
        }
        let xml = package.text(&part)?;
        let xml = xml.ok_or(WorkbookError::Missing { what: "main part" })?;
        let relations = relations(package, &part)?;
        let target = |kind| {
            let found = relations.iter().find(|one| one.is(kind));
            found.map_or_else(String::new, |one| one.target.clone())
        };
        let mut book = Self {
            sheets: Vec::new(),
            first_seen: 0,
            strings: target("/sharedStrings"),
            styles: target("/styles"),
            has_chain: !target("/calcChain").is_empty(),
            is_1904: false,
            is_signed,
            part,
            xml,
        };
        let listed = book.list_sheets(&relations);
        listed.map_err(WorkbookError::part(&book.part))?;
        Ok(book)
    }

    pub fn names(&self) -> Vec<String> {
        self.sheets.iter().map(|sheet| sheet.name.clone()).collect()
    }

    /// Index of the sheet of this name, else of the first that is not hidden.
    pub fn sheet(&self, name: Option<&str>) -> Result<usize, WorkbookError> {
        crate::find_sheet(&self.names(), self.first_seen, name)
    }

    fn list_sheets(&mut self, relations: &[Relation]) -> Result<(), XmlError> {
        let mut elements = Elements::new(&self.xml);
        let mut first_seen = None;
        while let Some(tag) = elements.next_tag()? {
            if local(tag.name) == "workbookPr" {
                let days = tag.attribute("date1904")?;
                self.is_1904 |= days.is_some_and(|days| matches!(days.raw, "1" | "true"));
            }
            if local(tag.name) != "sheet" {
                continue;
            }
            // The attribute `id` of the relations' own names, under whatever prefix.
            let mut attributes = tag.attributes()?.into_iter();
            let id = attributes.find(|one| one.name.ends_with(":id"));
            let relation = id.and_then(|id| relations.iter().find(|one| one.id == id.raw));
            // Sheets that are one chart have no cells.
            if let (Some(name), Some(relation)) = (tag.value("name")?, relation)
                && relation.is("/worksheet")
            {
                if tag
                    .attribute("state")?
                    .is_none_or(|state| state.raw == "visible")
                {
                    first_seen.get_or_insert(self.sheets.len());
                }
                self.sheets.push(SheetPart {
                    name: name.into_owned(),
                    part: relation.target.clone(),
                });
            }
        }
        self.first_seen = first_seen.unwrap_or_default();
        Ok(())
    }

    /// Whether a sheet has tables.
    pub fn has_tables(
        &self,
        package: &mut Package<'_>,
        sheet: usize,
    ) -> Result<bool, WorkbookError> {
        Ok(!self.tables(package, sheet)?.is_empty())
    }

    /// Header and totals of the tables of a sheet: Excel repairs a workbook whose headers differ
    /// from the names of the columns.
    pub fn table_headers(
        &self,
        package: &mut Package<'_>,
        sheet: usize,
    ) -> Result<Vec<Rect>, WorkbookError> {
        let mut headers = Vec::new();
        for (part, xml) in self.tables(package, sheet)? {
            headers.extend(table_header(&xml).map_err(WorkbookError::part(&part))?);
        }
        Ok(headers)
    }

    /// What the values of cells point to.
    pub fn sources(&self, package: &mut Package<'_>) -> Result<CellSources, WorkbookError> {
        let texts = package.text(&self.strings)?.unwrap_or_default();
        let styles = package.text(&self.styles)?.unwrap_or_default();
        Ok(CellSources {
            texts: shared(&texts).map_err(WorkbookError::part(&self.strings))?,
            formats: styles::read(&styles).map_err(WorkbookError::part(&self.styles))?,
            is_1904: self.is_1904,
        })
    }

    /// What the names in formulas stand for.
    pub fn areas(&self, package: &mut Package<'_>) -> Result<NamedAreas, WorkbookError> {
        let mut areas = self
            .defined_names()
            .map_err(WorkbookError::part(&self.part))?;
        for sheet in 0..self.sheets.len() {
            for (part, xml) in self.tables(package, sheet)? {
                let table = table_area(&xml, sheet).map_err(WorkbookError::part(&part))?;
                if let Some((name, table)) = table {
                    areas.table(&name, table);
                }
            }
        }
        Ok(areas)
    }

    fn defined_names(&self) -> Result<NamedAreas, XmlError> {
        let names = self.names();
        let mut areas = NamedAreas::default();
        let mut elements = Elements::new(&self.xml);
        while let Some(tag) = elements.next_tag()? {
            if local(tag.name) != "definedName" {
                continue;
            }
            let (text, _) = elements.text_of(&tag)?;
            let outside = Sheets {
                names: &names,
                own: None,
                areas: &NamedAreas::default(),
            };
            if let Some(name) = tag.value("name")? {
                areas.name(&name, Reads::excel(&text, &outside));
            }
        }
        Ok(areas)
    }

    /// The parts of the tables of a sheet, with their texts.
    fn tables(
        &self,
        package: &mut Package<'_>,
        sheet: usize,
    ) -> Result<Vec<(String, String)>, WorkbookError> {
        let mut tables = Vec::new();
        for relation in relations(package, &self.sheets[sheet].part)? {
            if relation.is("/table")
                && let Some(xml) = package.text(&relation.target)?
            {
                tables.push((relation.target, xml));
            }
        }
        Ok(tables)
    }
}

impl Relation {
    /// Whether its type ends so: the strict variant of the format has other names before that.
    fn is(&self, kind: &str) -> bool {
        self.kind.ends_with(kind)
    }
}

/// The relations of a part, their targets as names of parts; those of the package for `""`.
fn relations(package: &mut Package<'_>, part: &str) -> Result<Vec<Relation>, WorkbookError> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let list = match folder {
        "" => format!("_rels/{name}.rels"),
        folder => format!("{folder}/_rels/{name}.rels"),
    };
    let Some(xml) = package.text(&list)? else {
        return Ok(Vec::new());
    };
    let mut relations = read_relations(&xml, folder).map_err(WorkbookError::part(&list))?;
    for relation in &mut relations {
        if let Some(name) = package.find(&relation.target) {
            relation.target = name.to_owned();
        }
    }
    Ok(relations)
}

fn read_relations(xml: &str, folder: &str) -> Result<Vec<Relation>, XmlError> {
    let mut elements = Elements::new(xml);
    let mut relations = Vec::new();
    while let Some(tag) = elements.next_tag()? {
        if local(tag.name) != "Relationship"
            || tag
                .value("TargetMode")?
                .is_some_and(|mode| mode == "External")
        {
            continue;
        }
        if let (Some(id), Some(kind), Some(target)) =
            (tag.value("Id")?, tag.value("Type")?, tag.value("Target")?)
        {
            relations.push(Relation {
                id: id.into_owned(),
                kind: kind.into_owned(),
                target: resolved(folder, &target),
            });
        }
    }
    Ok(relations)
}

/// The name of the part that a target names, seen from a folder.
fn resolved(folder: &str, target: &str) -> String {
    let (folder, target) = match target.strip_prefix('/') {
        Some(target) => ("", target),
        None => (folder, target),
    };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn table_header(xml: &str) -> Result<Vec<Rect>, XmlError> {
    let mut elements = Elements::new(xml);
    let table = elements.next_tag()?;
    let table = table.ok_or_else(|| meaning("no element", 0))?;
    let Some(area) = table.value("ref")?.and_then(|area| Rect::read(&area)) else {
        return Ok(Vec::new());
    };
    let rows = |name: &str, or: u32| -> Result<u32, XmlError> {
        let rows = table.value(name)?.and_then(|rows| rows.parse().ok());
        Ok(rows.unwrap_or(or).min(area.rows.1 - area.rows.0 + 1))
    };
    let (top, bottom) = (rows("headerRowCount", 1)?, rows("totalsRowCount", 0)?);
    let mut parts = Vec::new();
    if top > 0 {
        let rows = (area.rows.0, area.rows.0 + top - 1);
        parts.push(Rect { rows, ..area });
    }
    if bottom > 0 {
        let rows = (area.rows.1 + 1 - bottom, area.rows.1);
        parts.push(Rect { rows, ..area });
    }
    Ok(parts)
}

/// Name and area of a table.
fn table_area(xml: &str, sheet: usize) -> Result<Option<(String, TableArea)>, XmlError> {
    let mut elements = Elements::new(xml);
    let table = elements.next_tag()?;
    let table = table.ok_or_else(|| meaning("no element", 0))?;
    let area = table.value("ref")?.and_then(|area| Rect::read(&area));
    let (Some(area), Some(name)) = (area, table.value("displayName")?) else {
        return Ok(None);
    };
    let mut columns = Vec::new();
    while let Some(tag) = elements.next_tag()? {
        if local(tag.name) == "tableColumn" {
            columns.push(decoded(&tag.value("name")?.unwrap_or_default()));
        }
    }
    let table = TableArea {
        sheet,
        area,
        columns,
    };
    Ok(Some((name.into_owned(), table)))
}

/// Asks for a full calculation when the workbook is opened.
pub(super) fn full_calculation(xml: &str) -> Result<Splice, XmlError> {
    const BEFORE: &[&str] = &[
        "sheets",
        "functionGroups",
        "externalReferences",
        "definedNames",
    ];
    let mut elements = Elements::new(xml);
    let mut depth = 0;
    let mut behind = None;
    loop {
        match elements.next()? {
            XmlStep::Open(tag) if depth == 1 && local(tag.name) == "calcPr" => {
                return Ok(match tag.attribute("fullCalcOnLoad")? {
                    Some(attribute) => Splice::new(attribute.value_at, "1"),
                    None => {
                        let at = tag.at.start + 1 + tag.name.len();
                        Splice::new(at..at, " fullCalcOnLoad=\"1\"")
                    }
                });
            }
            XmlStep::Open(tag) => {
                if depth == 1 && tag.is_empty && BEFORE.contains(&local(tag.name)) {
                    behind = Some((tag.at.end, prefix(tag.name)));
                }
                depth += u32::from(!tag.is_empty);
            }
            XmlStep::Close(name, at) => {
                depth -= 1;
                if depth == 1 && BEFORE.contains(&local(name)) {
                    behind = Some((at.end, prefix(name)));
                }
            }
            XmlStep::Text(_) => {}
            XmlStep::End => break,
        }
    }
    let (at, prefix) = behind.ok_or_else(|| meaning("no list of sheets", xml.len()))?;
    let text = format!("<{prefix}calcPr fullCalcOnLoad=\"1\"/>");
    Ok(Splice::new(at..at, text))
}

#[cfg(test)]
mod tests {
    use super::{full_calculation, resolved, table_header};
    use crate::xml::pieces;

    #[test]
    fn targets_are_absolute_or_seen_from_the_folder() {
        assert_eq!(
            resolved("xl/worksheets", "../tables/t1.xml"),
            "xl/tables/t1.xml"
        );
        assert_eq!(
            resolved("xl", "/xl/worksheets/s.xml"),
            "xl/worksheets/s.xml"
        );
        assert_eq!(resolved("", "xl/workbook.xml"), "xl/workbook.xml");
    }

    #[test]
    fn full_calculation_is_asked_where_the_format_wants_it() {
        for (xml, wanted) in [
            (
                "<w><sheets><sheet/></sheets><calcPr calcId=\"1\"/></w>",
                "<w><sheets><sheet/></sheets><calcPr fullCalcOnLoad=\"1\" calcId=\"1\"/></w>",
            ),
            (
                "<w><sheets/><calcPr fullCalcOnLoad='0'/></w>",
                "<w><sheets/><calcPr fullCalcOnLoad='1'/></w>",
            ),
            (
                "<x:w><x:sheets/><x:definedNames><x:n>1</x:n></x:definedNames><x:extLst/></x:w>",
                "<x:w><x:sheets/><x:definedNames><x:n>1</x:n></x:definedNames><x:calcPr fullCalcOnLoad=\"1\"/><x:extLst/></x:w>",
            ),
        ] {
            let splice = full_calculation(xml).unwrap();
            assert_eq!(pieces(xml, &mut [splice]).concat(), wanted);
        }
    }

    #[test]
    fn header_and_totals_of_a_table_are_its_ends() {
        let parts = |xml| -> Vec<String> {
            let parts = table_header(xml).unwrap();
            parts.iter().map(|part| part.text()).collect()
        };
        assert_eq!(
            parts("<table ref='B2:D9' totalsRowCount='1'/>"),
            ["B2:D2", "B9:D9"]
        );
        assert!(parts("<table ref='B2:D9' headerRowCount='0'/>").is_empty());
    }
}
