"""Makes the workbooks `kinds-*` of this folder: a cell of each kind and look, written by
openpyxl and XlsxWriter, in both date systems, and saved anew by LibreOffice.

Needs openpyxl, XlsxWriter and LibreOffice; the tests need none of them. Run in this
folder: python3 kinds.py
"""

import datetime
import pathlib
import shutil
import subprocess
import tempfile

import openpyxl
import xlsxwriter
from openpyxl.comments import Comment
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900

LOOKS = [
    "General", "0", "0.00", "#,##0", "0%", "0.00%", "0.00E+00", "# ?/?", "@", "mm-dd-yy", "d-mmm-yy", "mmm-yy",
    "h:mm AM/PM", "h:mm:ss", "m/d/yy h:mm", "mm:ss", "[h]:mm:ss", "mm:ss.0", "yyyy-mm-dd", "[$-409]d\\-mmm\\-yyyy;@",
    '"day "0', '0.0" m"', "[h]", "[mm]:ss", "[Red]0.0;[Blue]-0.0", '#,##0.00 "€"', "\\d0", "0_d", "*y0", "yyyy;0",
    "0;yyyy", "hh A/P", '[>=100]0;[<100]yyyy', "dddd", "[$-F800]dddd, mmmm dd, yyyy", "_-* #,##0.00 [$€-407]_-",
]
NUMBERS = [0, 0.25, 1, 1.5, 59, 60, 61, 366.999, 43000, 46346.6065, 46345.99999999999, 2958465, 2958466, -2.5, 1e21]
TEXTS = [
    "plain", " blanks at both ends ", "two  blanks", "line\nbreak", "tab\there", "007", "1.50", "TRUE", "#N/A", "é ü 日本",
    "🙂", "_x0041_", "a & <b> \"c\" 'd'", "'apostrophe", "=no formula", "\u00a0nbsp\u00a0", "x" * 300, "   ", "\n",
]
FORMULAS = [
    ("=1+1", 2), ("=0.1+0.2", 0.30000000000000004), ('="a"&"b"', "ab"), ('=""', ""), ("=1=1", True), ("=NA()", "#N/A"),
    ("=1/0", "#DIV/0!"), ('=VALUE("x")', "#VALUE!"), ("=SQRT(-1)", "#NUM!"), ("=TRUE()", True), ("=FALSE()", False),
    ("=nosuchname", "#NAME?"), ('=" b "', " b "), ("=A1:A2 B1:B2", "#NULL!"),
]


def by_openpyxl(path, epoch):
    book = openpyxl.Workbook()
    book.epoch = epoch
    book.active.title = "Hidden"
    book.active.append(["not this one"])
    book.active.sheet_state = "hidden"
    book.create_sheet("Deep").sheet_state = "veryHidden"
    sheet = book.create_sheet("Looks & kinds")
    book.active = sheet
    for row, look in enumerate(LOOKS, 1):
        for column, number in enumerate(NUMBERS, 1):
            sheet.cell(row, column, number).number_format = look
    sheet = book.create_sheet("It's text")
    for row, text in enumerate(TEXTS, 1):
        sheet.cell(row, 1, text).data_type = "s"
        sheet.cell(row, 3, f"{row}").data_type = "s"
    for row, (formula, _) in enumerate(FORMULAS, 1):
        sheet.cell(row, 2, formula)
    sheet["A30"].comment = Comment("not a cell", "me")
    sheet["A31"], sheet["B31"] = True, False
    sheet["A32"].hyperlink = "https://example.org"
    sheet["A32"] = "linked"
    sheet.cell(33, 1, datetime.datetime(2026, 11, 20, 12, 30, 15, 500000))
    sheet.cell(33, 2, datetime.time(23, 59, 59))
    sheet.cell(33, 3, datetime.timedelta(hours=26, minutes=3))
    sheet.cell(33, 4, datetime.date(1999, 12, 31))
    sheet = book.create_sheet("Places")
    sheet.merge_cells("B2:C4")
    sheet["B2"] = "merged"
    sheet.merge_cells("E2:G2")
    sheet["E2"] = 5
    for row in range(6, 40):
        for column in range(2, 9):
            sheet.cell(row, column, 7)
    for row in range(60, 90):
        sheet.cell(row, 3).number_format = "yyyy"
    sheet.row_dimensions[7].hidden = True
    sheet.column_dimensions["D"].hidden = True
    sheet.row_dimensions.group(10, 12)
    sheet["ZZ1000"] = "far"
    sheet["B1000"] = 18446744073709551615
    sheet["C1000"] = -9007199254740993
    book.create_sheet("Empty")
    book.create_chartsheet("Chart")
    book.save(path)


def by_xlsxwriter(path, is_1904):
    book = xlsxwriter.Workbook(path, {"date_1904": is_1904, "use_future_functions": True})
    book.add_worksheet("Hidden").hide()
    sheet = book.add_worksheet("Looks & kinds")
    sheet.activate()
    for row, look in enumerate(LOOKS):
        form = book.add_format({"num_format": look})
        for column, number in enumerate(NUMBERS):
            sheet.write_number(row, column, number, form)
    sheet = book.add_worksheet("It's text")
    bold = book.add_format({"bold": True})
    for row, text in enumerate(TEXTS):
        sheet.write_string(row, 0, text)
        sheet.write_string(row, 2, f"{row}")
    for row, (formula, value) in enumerate(FORMULAS):
        sheet.write_formula(row, 1, formula, None, value)
    sheet.write_rich_string("A30", "a ", bold, " bold ", "word")
    sheet.write_boolean("A31", True)
    sheet.write_comment("A31", "not a cell")
    sheet.write_array_formula("D1:D3", "{=A20:A22*2}", None, 4)
    sheet.write_dynamic_array_formula("E1:E2", "=LEN(A1:A2)", None, 5)
    sheet.write_blank("F1", None, bold)
    book.add_worksheet("Sparse").write(999, 99, "far")
    book.close()


def by_libreoffice(source, ending):
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["soffice", "--headless", "--convert-to", ending, "--outdir", made, source], check=True)
        name = pathlib.Path(source).stem.replace("kinds-", "kinds-libreoffice-") + "." + ending
        shutil.move(f"{made}/{pathlib.Path(source).stem}.{ending}", name)


by_openpyxl("kinds-openpyxl.xlsx", CALENDAR_WINDOWS_1900)
by_openpyxl("kinds-openpyxl-1904.xlsx", CALENDAR_MAC_1904)
by_xlsxwriter("kinds-xlsxwriter.xlsx", False)
by_xlsxwriter("kinds-xlsxwriter-1904.xlsx", True)
for source in ["kinds-openpyxl.xlsx", "kinds-openpyxl-1904.xlsx", "kinds-xlsxwriter.xlsx"]:
    for ending in ["xlsx", "ods", "xls"]:
        by_libreoffice(source, ending)
