"""Makes the workbooks of this folder, each by another program, with the same cells.

Needs openpyxl, XlsxWriter and LibreOffice; the tests need none of them. Run in this
folder: python3 make.py
"""

import datetime
import subprocess

import openpyxl
import xlsxwriter

GROUPS = {4: "Code", 5: "Params", 8: "Test"}
NAMES = ["nr", "date", "name", "command", "lr", "layers", "ok", "10ep", "50ep"]
DAY = datetime.date(2015, 5, 20)
MOMENT = datetime.datetime(2015, 5, 27, 14, 30)
# Row 6 is a spacer; a formula is (text, value).
ROWS = {
    3: [1, DAY, "first", "python3 main.py {Params/lr}", 0.67318100000000003, 5, True, ("=E3*2", 1.346362), None],
    4: [2, MOMENT, " second ", "python3 main.py", "0.001, decay 0.999", 2, False, ("=NA()", "#N/A"), ("=1/0", "#DIV/0!")],
    5: [3, None, "third", None, 2e-4, "007", None, ("=E5&\"\"", "0.0002"), None],
    7: [4, None, "a <b> & \u00e9", "x\ny", 1e-7, 1e20, None, None, None],
}


def by_openpyxl(path, merged):
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    book.active["A1"] = "not this one"
    book.active.sheet_state = "hidden"
    sheet = book.create_sheet("Experiments")
    book.active = sheet
    for column, name in GROUPS.items():
        sheet.cell(1, column, name)
    if merged:
        sheet.merge_cells("E1:G1")
        sheet.merge_cells("H1:I1")
    for column, name in enumerate(NAMES, 1):
        sheet.cell(2, column, name)
    for row, values in ROWS.items():
        for column, value in enumerate(values, 1):
            if isinstance(value, tuple):
                value = value[0]
            if value is not None:
                sheet.cell(row, column, value)
    sheet["B3"].number_format = "d/mmm;@"
    book.save(path)


def by_xlsxwriter(path):
    book = xlsxwriter.Workbook(path)
    book.add_worksheet("Notes").hide()
    sheet = book.add_worksheet("Experiments")
    sheet.activate()
    bold = book.add_format({"bold": True})
    day = book.add_format({"num_format": "d/mmm;@"})
    moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm"})
    for column, name in GROUPS.items():
        sheet.write(0, column - 1, name, bold)
    for column, name in enumerate(NAMES):
        sheet.write(1, column, name, bold)
    for row, values in ROWS.items():
        for column, value in enumerate(values):
            if isinstance(value, tuple):
                sheet.write_formula(row - 1, column, value[0], None, value[1])
            elif isinstance(value, datetime.datetime):
                sheet.write_datetime(row - 1, column, value, moment)
            elif isinstance(value, datetime.date):
                sheet.write_datetime(row - 1, column, value, day)
            elif isinstance(value, str):
                sheet.write_string(row - 1, column, value)
            elif value is not None:
                sheet.write(row - 1, column, value)
    sheet.conditional_format("E3:E9", {"type": "data_bar"})
    sheet.autofilter("A2:I7")
    book.close()


def by_libreoffice(source, ending, name):
    subprocess.run(["soffice", "--headless", "--convert-to", ending, "--outdir", "made", source], check=True)
    subprocess.run(["mv", f"made/{source.rsplit('.', 1)[0]}.{ending}", name], check=True)
    subprocess.run(["rmdir", "made"], check=True)


by_openpyxl("openpyxl.xlsx", merged=False)
by_openpyxl("merged.xlsx", merged=True)
by_xlsxwriter("xlsxwriter.xlsx")
by_libreoffice("merged.xlsx", "ods", "libreoffice.ods")
by_libreoffice("merged.xlsx", "xls", "libreoffice.xls")
subprocess.run(["cp", "merged.xlsx", "again.xlsx"], check=True)
by_libreoffice("again.xlsx", "xlsx", "libreoffice.xlsx")
subprocess.run(["rm", "again.xlsx", "merged.xlsx"], check=True)
