"""A corpus of files as people have them, each with what must come out.

    python -m mom_pipeline_tests.datasets.corpus FOLDER    # write them, to look at or to try

Every file holds the same shop (or a part of it that its format can say): who took what, when, how
many, the name and the group of the item.
"""

import bz2
import csv
import gzip
import io
import json
import random
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

BEGIN = datetime(2024, 1, 3, 8, 15)  # an hour later in no zone, and both readings of 3/1 are days


@dataclass(frozen=True)
class Line:
    """One row of the shop."""

    order: str
    user: str
    item: str
    name: str
    group: str
    store: str
    n: float
    at: datetime


def shop(n: int = 600, seed: int = 0) -> list[Line]:
    """Rows of 30 days, in order of time, of 90 users and 40 items."""
    rng = random.Random(seed)
    lines = []
    for number in range(n):
        at = BEGIN + timedelta(days=30 * number // n, minutes=rng.randrange(600))
        item = rng.randrange(40)
        lines.append(
            Line(
                f"{5000 + number // 2}", f"{10000 + rng.randrange(90)}", f"A-{item:03d}",
                f"Größe {item} – café", f"G{item % 5}", f"F{number % 4}", rng.choice([1, 1, 2, 3]),
                at,
            )
        )  # fmt: skip
    return sorted(lines, key=lambda line: line.at)


Row = list[str]
Style = Callable[[Line], Row]


@dataclass(frozen=True)
class Case:
    """A file, what `start --yes` must make of it, and how it is written.

    taken: rows that count.  first: user, item, local time and quantity of the first of them.
    arguments: options that a person has to give, which no guess can know.
    """

    name: str
    write: Callable[[Path], None]
    taken: int = 600
    first: tuple[str, str, str, float] | None = None
    arguments: tuple[str, ...] = ()
    names: bool = True
    set_aside: dict[str, int] = field(default_factory=dict)


def text(
    header: str | None,
    style: Style,
    delimiter: str = ",",
    encoding: str = "utf-8",
    end: str = "\n",
    pack: Callable[[bytes], bytes] = lambda content: content,
    defect: Callable[[list[str]], list[str]] = lambda lines: lines,
) -> Callable[[Path], None]:
    """Write delimited text. header: names, parted by commas."""

    def write(path: Path) -> None:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter[0], lineterminator="\n")
        if header:
            writer.writerow(header.split(","))
        writer.writerows(style(line) for line in shop())
        content = out.getvalue()
        if len(delimiter) > 1:
            content = content.replace(delimiter[0], delimiter)
        lines = defect(content.split("\n")[:-1])
        path.write_bytes(pack((end.join(lines) + end).encode(encoding)))

    return write


def row(time: str, number: Callable[[float], str] = lambda n: f"{n:g}") -> Style:
    """Order, user, item, name, group, quantity, time."""
    return lambda x: [x.order, x.user, x.item, x.name, x.group, number(x.n), x.at.strftime(time)]


ISO = "%Y-%m-%d %H:%M:%S"
PLAIN = row(ISO)
ENGLISH = "order_id,customer_id,product_id,product_name,category,quantity,order_date"
HEADERS = {
    "english": ENGLISH,
    "german": "Bestellnummer,Kundennummer,Artikelnummer,Artikelbezeichnung,Warengruppe,Menge,"
    "Bestelldatum",
    "french": "Commande,Numéro client,Code article,Désignation,Catégorie,Quantité,Date",
    "spanish": "Pedido,ID Cliente,Código producto,Descripción,Categoría,Cantidad,Fecha",
    "italian": "Ordine,Codice cliente,Codice articolo,Descrizione,Categoria,Quantità,Data ordine",
    "dutch": "Ordernummer,Klantnummer,Artikelnummer,Omschrijving,Productgroep,Aantal,Besteldatum",
    "portuguese": "Pedido,Código do cliente,Código do produto,Descrição,Categoria,Quantidade,Data",
    "polish": "Zamówienie,Numer klienta,Kod produktu,Nazwa,Kategoria,Ilość,Data zamówienia",
}
MORE_HEADERS = {
    "camel": "InvoiceNo,CustomerID,StockCode,Description,Category,Quantity,InvoiceDate",
    "household": "basket_id,household_id,sku,title,department,qty,event_time",
    "client": "session_id,client_id,item_id,item_name,genre,units,created_at",
    "glued": "transactionid,visitorid,itemid,label,categoryid,count,timestamp",
    "words": "Order Number,Customer Number,Item Number,Item Description,Item Group,Qty,Sale Date",
    "haendler": "Beleg,Kunde,Artikel,Bezeichnung,Abteilung,Anzahl,Datum",
}
TIMES = {
    "german": "%d.%m.%Y %H:%M",
    "british": "%d/%m/%Y %H:%M:%S",
    "american": "%m/%d/%Y %H:%M",
    "twelve": "%m/%d/%Y %I:%M %p",
    "locale": "%d.%m.%Y, %H:%M:%S",
    "dots": "%Y.%m.%d %H:%M",
    "month": "%d %b %Y %H:%M",
    "utc": "%Y-%m-%d %H:%M:%S UTC",
    "offset": "%Y-%m-%d %H:%M:%S+00:00",
    "zulu": "%Y-%m-%dT%H:%M:%SZ",
    "packed": "%Y%m%d",
    "day": "%Y-%m-%d",
    "epoch": "%s",
}
NUMBERS: dict[str, Callable[[float], str]] = {
    "comma": lambda n: f"{n:.1f}".replace(".", ","),
    "mixed": lambda n: f"{n + 0.5 * (n == 3):g}".replace(".", ","),
    "currency": lambda n: f"€ {n:.2f}",
    "thousands": lambda n: f"{1000 * n + 0.5:,.2f}".replace(",", " ").replace(".", ","),
    "apostrophe": lambda n: f"'{n}'",
}


def blanks(lines: list[str]) -> list[str]:
    return [*lines[:50], "", *lines[50:], "", ";;;;;;", ""]


def at(places: dict[int, str]) -> Callable[[list[str]], list[str]]:
    """Put lines in between."""

    def put(lines: list[str]) -> list[str]:
        for place, line in sorted(places.items(), reverse=True):
            lines = [*lines[:place], line, *lines[place:]]
        return lines

    return put


def remarks(x: Line) -> Row:
    return [*PLAIN(x)[:3], f'first line\nthe "second", {x.name}\n', *PLAIN(x)[4:]]


def epoch(x: Line) -> str:
    return str(int((x.at - datetime(1970, 1, 1)).total_seconds()))


def serial(x: Line) -> str:
    return f"{(x.at - datetime(1899, 12, 30)).total_seconds() / 86400:.6f}"


def values() -> list[Row]:
    return [PLAIN(line) for line in shop()]


def sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE orders ({ENGLISH.replace(',', ' TEXT, ')} TEXT)")
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", values())
    database.close()


def in_duckdb(*tables: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with duckdb.connect(str(path)) as database:
            for table in tables:
                names = ", ".join(f"{name} VARCHAR" for name in ENGLISH.split(","))
                database.execute(f"CREATE TABLE {table} ({names})")
                database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)", values())

    return write


def parquet(path: Path) -> None:
    names = ", ".join(f"{name} VARCHAR" for name in ENGLISH.split(","))
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE orders ({names})")
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", values())
        database.execute(
            "COPY (SELECT * REPLACE (order_date::TIMESTAMP AS order_date, "
            f"customer_id::DOUBLE AS customer_id) FROM orders) TO '{path}' (FORMAT parquet)"
        )


def jsonl(path: Path) -> None:
    keys = ENGLISH.split(",")
    rows = (dict(zip(keys, row, strict=True)) for row in values())
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def json_array(path: Path) -> None:
    keys = ENGLISH.split(",")
    path.write_text(json.dumps([dict(zip(keys, row, strict=True)) for row in values()]))


def excel(*sheets: str, serials: bool = False) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        book.remove(book.active)
        for name in sheets:
            sheet = book.create_sheet(name)
            sheet.append(HEADERS["german"].split(","))
            for x in shop():
                when = float(serial(x)) if serials else x.at
                sheet.append([int(x.order), int(x.user), x.item, x.name, x.group, x.n, when])
        book.create_sheet("Notes")["A1"] = "made by hand"
        with path.open("wb") as out:
            book.save(out)

    return write


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for number in range(3):
            part = io.StringIO()
            writer = csv.writer(part)
            writer.writerow(ENGLISH.split(","))
            writer.writerows(values()[200 * number : 200 * (number + 1)])
            out.writestr(f"export/{number}.csv", part.getvalue())


def folder(path: Path) -> None:
    path.mkdir()
    for number in range(3):
        with (path / f"part-{number}.csv").open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, delimiter=";")
            writer.writerow(ENGLISH.split(","))
            writer.writerows(values()[200 * number : 200 * (number + 1)])
    (path / ".hidden").write_text("x")


def events(path: Path) -> None:
    """Views, of which some become purchases later."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["timestamp", "visitorid", "event", "itemid"])
        for number, x in enumerate(shop()):
            kind = ("view", "view", "addtocart", "transaction")[number % 4]
            writer.writerow([epoch(x) + "000", x.user, kind, x.item])


def returns(path: Path) -> None:
    """Each tenth row is returned an hour later; two returns are of what was never taken."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["customer", "sku", "qty", "ordered_at"])
        for number, x in enumerate(shop()):
            writer.writerow([x.user, x.item, f"{x.n:g}", x.at])
            if number % 10 == 0:
                writer.writerow([x.user, x.item, f"-{x.n:g}", x.at + timedelta(hours=1)])
        writer.writerow(["10000", "never", "-1", "2024-02-01 00:00:00"])
        writer.writerow(["10001", "never", "-1", "2024-02-01 00:00:00"])
        writer.writerow(["10001", "A-001", "0", "2024-02-01 00:00:00"])


def lists(path: Path) -> None:
    """As public splits are: a user and their items, without times."""
    path.write_text(
        "".join(f"{u} {' '.join(str(u + n) for n in range(1, 3 + u % 4))}\n" for u in range(99))
    )


def cases() -> Iterator[Case]:
    """Yield every file."""
    first = shop()[0]
    usual = (first.user, first.item, f"{first.at:%Y-%m-%d %H:%M:%S}", first.n)
    yield from as_written(usual)
    yield from with_defects(usual)
    yield from in_containers(usual)


def as_written(usual: tuple[str, str, str, float]) -> Iterator[Case]:
    """Yield files with headers, encodings, delimiters, times and numbers of all kinds."""
    *_, when, n_first = usual
    for language, header in HEADERS.items():
        delimiter = ";" if language in ("german", "french", "dutch") else ","
        yield Case(f"{language}.csv", text(header, PLAIN, delimiter), first=usual)
    for name, header in MORE_HEADERS.items():
        yield Case(f"names-{name}.csv", text(header, PLAIN), first=usual)
    for encoding in ("utf-8-sig", "cp1252", "utf-16", "utf-16-le", "latin-1"):
        style: Style = PLAIN
        if encoding == "latin-1":
            style = lambda x: [c.replace("–", "-") for c in PLAIN(x)]  # noqa: E731
        yield Case(f"{encoding}.csv", text(HEADERS["german"], style, ";", encoding), first=usual)
    for name, delimiter in (("tab.tsv", "\t"), ("pipe.txt", "|"), ("semicolon.txt", ";")):
        yield Case(name, text(ENGLISH, PLAIN, delimiter), first=usual)
    style = lambda x: [x.user, x.item, "5", epoch(x)]  # noqa: E731
    yield Case("ratings.dat", text(None, style, "::"), first=(*usual[:3], 1.0), names=False)
    for name, pattern in TIMES.items():
        style = row(pattern)
        if name == "epoch":
            style = lambda x: [*PLAIN(x)[:-1], epoch(x)]  # noqa: E731
        cut = {"packed": 10, "day": 10}.get(name, 16)
        at_first = when[:cut] + (" 00:00:00" if cut == 10 else ":00")
        yield Case(f"time-{name}.csv", text(ENGLISH, style), first=(*usual[:2], at_first, usual[3]))
    yield Case("time-serial.csv", text(ENGLISH, lambda x: [*PLAIN(x)[:-1], serial(x)]), first=usual)
    for name, number in NUMBERS.items():
        n = {"thousands": 1000 * n_first + 0.5}.get(name, n_first)
        yield Case(
            f"number-{name}.csv",
            text(HEADERS["german"], row(ISO, number), ";"),
            first=(*usual[:3], n),
        )
    points: Style = row(ISO, lambda n: f"{1000 * n:,.1f}")
    yield Case("number-points.csv", text(ENGLISH, points), first=(*usual[:3], 1000 * n_first))


def with_defects(usual: tuple[str, str, str, float]) -> Iterator[Case]:
    """Yield files with lines that are none, and columns that are hard to tell."""
    when = usual[2]
    yield Case("crlf.csv", text(ENGLISH, PLAIN, end="\r\n"), first=usual)
    yield Case("blanks.csv", text(ENGLISH, PLAIN, ";", defect=blanks), first=usual)
    yield Case("remarks.csv", text(ENGLISH.replace("product_name", "remark"), remarks), first=usual)
    yield Case(
        "title.csv", text(ENGLISH, PLAIN, defect=lambda x: ["Orders of 2024", "", *x]), first=usual
    )
    yield Case(
        "separator.csv", text(ENGLISH, PLAIN, ";", defect=lambda x: ["sep=;", *x]), first=usual
    )
    yield Case(
        "repeated.csv", text(ENGLISH, PLAIN, defect=at({300: ENGLISH, 500: ENGLISH})), first=usual
    )
    yield Case(
        "ragged.csv",
        text(ENGLISH, PLAIN, defect=lambda x: [x[0], *(f"{y},," for y in x[1:])]),
        first=usual,
    )
    yield Case(
        "few-bad.csv",
        text(
            ENGLISH,
            PLAIN,
            defect=at(
                {100: "1,2", 200: '5,"open,A-1,x,y,1,2024-01-09', 300: "5,10000,A-001,x,y,1,soon"}
            ),
        ),
        first=usual,
        set_aside={
            "expected 7 fields, found 2": 1,
            "unbalanced quote": 1,
            "timestamp not understood": 1,
        },
    )
    yield Case(
        "no-user.csv",
        text(ENGLISH, PLAIN, defect=at({100: "5,,A-001,x,y,1,2024-01-20 10:00:00"})),
        first=usual,
        set_aside={"no user": 1},
    )
    yield Case(
        "bare.csv",
        text(None, lambda x: [x.user, x.item, x.at.strftime(ISO)]),
        first=(*usual[:3], 1.0),
        names=False,
    )
    yield Case(
        "unknown-names.csv",
        text("a,b,c,d", lambda x: [x.store, x.user, x.item, x.at.strftime(ISO)]),
        first=(*usual[:3], 1.0),
        names=False,
    )
    yield Case("no-time.csv", text("user,item", lambda x: [x.user, x.item]), names=False)
    for name, header, day, clock in (
        ("date-and-time.csv", "customer,product,date,time", "%m/%d/%Y", "%I:%M %p"),
        ("datum-und-uhrzeit.csv", "Kunde,Artikel,Uhrzeit,Datum", "%H:%M:%S", "%d.%m.%Y"),
    ):
        style = lambda x, d=day, c=clock: [x.user, x.item, x.at.strftime(d), x.at.strftime(c)]  # noqa: E731
        yield Case(name, text(header, style), first=(*usual[:2], when, 1.0), names=False)
    yield Case(
        "store.csv",
        text(
            "Filiale,Kunde,Artikel,Datum",
            lambda x: [x.store, x.user, x.item, x.at.strftime("%d.%m.%Y")],
            ";",
        ),
        first=(*usual[:2], when[:10] + " 00:00:00", 1.0),
        names=False,
    )
    yield Case(
        "named.csv",
        text(
            "Kunde,Kundennummer,Artikel,Artikelnummer,Preis,Datum",
            lambda x: [f"Frau {x.user}", x.user, x.name, x.item, "1,50", x.at.strftime("%d.%m.%y")],
            ";",
        ),
        first=(*usual[:2], when[:10] + " 00:00:00", 1.0),
    )


def in_containers(usual: tuple[str, str, str, float]) -> Iterator[Case]:
    """Yield rows in archives, sheets and databases, and what happened beside purchases."""
    yield Case(
        "packed.csv.gz", text(ENGLISH, PLAIN, pack=lambda c: gzip.compress(c, 1)), first=usual
    )
    yield Case("packed.csv.bz2", text(ENGLISH, PLAIN, pack=bz2.compress), first=usual)
    yield Case("book.xlsx", excel("2024"), first=usual)
    yield Case("serials.xlsx", excel("2024", serials=True), first=usual)
    yield Case("sheets.xlsx", excel("2023", "2024"), first=usual, arguments=("--sheet", "2024"))
    yield Case("shop.sqlite", sqlite, first=usual)
    yield Case("shop.duckdb", in_duckdb("orders"), first=usual)
    yield Case(
        "tables.duckdb", in_duckdb("orders", "older"), first=usual, arguments=("--table", "orders")
    )
    yield Case(
        "query.duckdb",
        in_duckdb("orders", "older"),
        taken=1,
        first=usual,
        arguments=("--query", "FROM orders LIMIT 1"),
    )
    yield Case("shop.parquet", parquet, first=usual)
    yield Case("shop.jsonl", jsonl, first=usual)
    yield Case("array.json", json_array, first=usual)
    yield Case("export.zip", archive, first=usual)
    yield Case("folder", folder, first=usual)
    yield Case("events.csv", events, first=(*usual[:3], 1.0), names=False)
    yield Case(
        "returns.csv",
        returns,
        taken=660,
        first=usual,
        names=False,
        set_aside={"return of what was not taken before": 2, "quantity 0": 1},
    )
    yield Case("pairs.txt", lists, taken=sum(2 + u % 4 for u in range(99)), names=False)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for case in cases():
        case.write(target / case.name)
