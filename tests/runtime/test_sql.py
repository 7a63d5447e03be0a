"""SQL for a policy: what it reads, what it cannot do, and how a query is graded."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from env_runtime.sql import Database, Query

SCRIPT = """
CREATE TABLE shops (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE sales (shop_id INTEGER, sum REAL);
CREATE VIEW rich AS SELECT name FROM shops WHERE id = 1;
CREATE TABLE log (line TEXT);
CREATE TRIGGER noted AFTER INSERT ON sales BEGIN INSERT INTO log VALUES ('sale'); END;
INSERT INTO shops VALUES (1, 'Ada', 'Rome'), (2, 'Ben', NULL), (3, 'Cleo', 'Rome');
INSERT INTO sales VALUES (1, 2.5), (1, 3), (3, 4);
"""
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
ENDLESS = COUNT + "SELECT count(*) FROM n"
NESTED = "WITH t0 AS (SELECT 1 x), " + ", ".join(
    f"t{n} AS (SELECT a.x FROM t{n - 1} a, t{n - 1} b)" for n in range(1, 27)
)
NESTED += " SELECT count(*) FROM t26"


@pytest.fixture(scope="module")
def shops():
    return Database(SCRIPT)


# ---------------------------------------------------------------------- what is read


def test_a_policy_reads_a_table(shops):
    text = shops.query(
        "SELECT name, city, sum / 2 FROM shops, sales WHERE id = shop_id"
    )
    assert text.splitlines() == [
        "name | city | sum / 2",
        "Ada | Rome | 1.25",
        "Ada | Rome | 1.5",
        "Cleo | Rome | 2.0",
    ]
    assert shops.query("SELECT NULL AS a, x'00ff' AS b") == "a | b\nNULL | x'00ff'"
    assert shops.query("SELECT 'a' || char(10) || 'b' AS a") == "a\na\\nb"
    assert shops.query("SELECT city FROM shops WHERE id = 9") == "city\nno rows"
    assert shops.query("SELECT name FROM rich;") == "name\nAda"
    assert "CREATE TABLE shops" in shops.schema()
    assert "CREATE VIEW rich" in shops.schema()
    five = COUNT.replace("FROM n)", "FROM n LIMIT 5)") + "SELECT sum(i) AS s FROM n"
    assert shops.query(five) == "s\n15"


def test_a_policy_reads_so_many_rows_and_characters():
    database = Database(SCRIPT, rows=2)
    assert database.query("SELECT id FROM shops") == "id\n1\n2\n... and more rows"
    assert database.query("SELECT id FROM shops LIMIT 2") == "id\n1\n2"
    long = "SELECT hex(zeroblob(3000)) AS a FROM shops"
    assert database.query(long) == f"a\n{'0' * 6000}\n... and more rows"
    with pytest.raises(ValueError, match="a row is too long"):
        database.query("SELECT hex(zeroblob(6000))")


def test_a_grader_reads_all_rows_as_values(shops):
    rows = shops.rows("SELECT id, sum, NULL, x'00ff', 'é' FROM shops, sales LIMIT 1")
    assert rows == [(1, 2.5, None, b"\x00\xff", "é")]
    assert shops.rows("SELECT 1 FROM shops WHERE id = 9") == []
    many = COUNT.replace("FROM n)", "FROM n LIMIT 10001)") + "SELECT i FROM n"
    assert len(shops.rows(f"SELECT * FROM ({many}) WHERE i > 1")) == 10_000
    with pytest.raises(ValueError, match="more than 10,000 rows or 1,000,000 char"):
        shops.rows(many)
    with pytest.raises(ValueError, match="more than 10,000 rows or 1,000,000 char"):
        shops.rows("SELECT hex(zeroblob(200000)) FROM shops")


def test_text_that_is_no_utf8_is_read(shops):
    assert shops.rows("SELECT CAST(x'41ff' AS TEXT)") == [("A\ufffd",)]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_is_a_file_its_bytes_or_a_connection(tmp_path, journal):
    path = tmp_path / "a # b?.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute(f"PRAGMA journal_mode = {journal}")
        made.executescript(SCRIPT)
        connected = Database(made)
        for name in ("Dan", "Eve"):  # also what is not committed
            made.execute("INSERT INTO shops (name) VALUES (?)", (name,))
            assert (name,) in connected.rows("SELECT name FROM shops")
        made.commit()
    before = path.read_bytes()
    for source in (path, before):
        assert Database(source).rows("SELECT max(id) FROM shops") == [(5,)]
        with pytest.raises(ValueError, match="only a SELECT can be run"):
            Database(source).query("DELETE FROM shops")
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_tables_of_full_text_are_read():
    made = "CREATE VIRTUAL TABLE notes USING fts5(text); "
    database = Database(made + "INSERT INTO notes VALUES ('a red lamp')")
    found = database.rows("SELECT * FROM notes WHERE notes MATCH 'lamp' ORDER BY rank")
    assert found == [("a red lamp",)]


@pytest.mark.parametrize(
    "source, message",
    [
        ("shop.db", "'shop.db'. The name of a file is given as a Path"),
        ("CREATE TABLE", "the script of a database failed: "),
        (b"no database" * 99, "no database: b'no database.*: file is not a database"),
        (Path("/none.db"), r"no database: PosixPath\('/none.db'\).*unable to open"),
    ],
)
def test_what_is_no_database_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        Database(source)


# ---------------------------------------------------------------------- attacks

DENIED = "; only a SELECT can be run$"
ATTACKS = {
    "ATTACH '/tmp/stolen.db' AS stolen": DENIED,
    "ATTACH ':memory:' AS more": DENIED,
    "VACUUM INTO '/tmp/stolen.db'": DENIED,
    "PRAGMA writable_schema = ON": DENIED,
    "PRAGMA hard_heap_limit = 0": DENIED,
    "PRAGMA query_only = OFF": DENIED,
    "PRAGMA temp_store_directory = '/tmp'": DENIED,
    "SELECT * FROM pragma_writable_schema": "",
    "SELECT * FROM pragma_database_list": DENIED,
    "SELECT load_extension('/lib/x.so')": "not authorized",
    "SELECT FTS3_tokenizer('simple')": "not authorized",  # an address of this process
    "SELECT fts3_tokenizer('simple', x'4141414141414141')": "not authorized",
    "INSERT INTO sales VALUES (1, 1)": DENIED,
    "WITH x AS (SELECT 1 i) INSERT INTO sales SELECT i, i FROM x": DENIED,
    "DELETE FROM sales RETURNING *": DENIED,
    "UPDATE sqlite_master SET sql = ''": "",
    "DROP TABLE sales": DENIED,
    "CREATE TEMP TABLE t AS SELECT 1": DENIED,
    "CREATE TEMP TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END": DENIED,
    "CREATE VIRTUAL TABLE t USING fts5(a)": DENIED,
    "REINDEX": "",
    "ANALYZE": DENIED,
    "BEGIN IMMEDIATE": DENIED,
    "SELECT 1; DELETE FROM sales": "one statement",
    "SELECT 1\0; DELETE FROM sales": "null character",
    "SELECT '\ud800'": "surrogates",
    "": "it is empty",
    "-- nothing": "it is empty",
    "SELECT " + "1 + " * 100_000 + "1": "over 20,000 characters",
    "SELECT " + "(" * 9_000 + "1" + ")" * 9_000: "",
    "SELECT " + "1+" * 9_000 + "1": "",
    "SELECT randomblob(1e9)": "too big",
    "SELECT length(zeroblob(1e9))": "too big",
    "SELECT replace(hex(zeroblob(400000)), '0', 'aaaa')": "too big",
    "SELECT length(printf('%.*c', 999999999, 'a')) + printf('%999999999d', 1)": "",
    "SELECT readfile('/etc/passwd')": "no such function",
    "SELECT writefile('/tmp/stolen', 'a')": "no such function",
    "SELECT fts3_tokenizer('simple', x'00')": "",
    "SELECT * FROM fsdir('/')": "no such table",
    ENDLESS: "it takes more than 1 s",
    COUNT + "SELECT group_concat(hex(zeroblob(400000))) FROM n": "takes|too big",
    COUNT + "SELECT json_group_array(i) FROM n": "it takes|too big",
    COUNT + "SELECT hex(randomblob(1000)) FROM n ORDER BY 1": "it takes",
    COUNT
    + "SELECT DISTINCT randomblob(1000) FROM n LIMIT 1 OFFSET 10000000": "it takes",
    f"{COUNT} SELECT sum(hex(zeroblob(9000)) LIKE '%0%0%0%0%0%0%1') FROM n": "it takes",
    f"{COUNT} SELECT sum(hex(zeroblob(9000)) GLOB '*0*0*0*0*0*0*1') FROM n": "it takes",
    NESTED: "it takes",
}


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: sql[:50])
def test_attacks_are_refused_in_time(shops, sql):
    before = shops.rows("SELECT * FROM sales"), shops.schema()
    started = time.monotonic()
    with pytest.raises(ValueError, match=f"(?s)the query failed: .*{ATTACKS[sql]}"):
        shops.query(sql)
    assert time.monotonic() - started < 20
    assert (shops.rows("SELECT * FROM sales"), shops.schema()) == before
    assert not Path("/tmp/stolen.db").exists() and not Path("/tmp/stolen").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("sql", [ENDLESS, NESTED], ids=["endless", "nested"])
def test_an_honest_query_does_not_wait_for_ten_others(shops, sql):
    ended = threading.Event()

    def attack():
        while not ended.is_set():
            with contextlib.suppress(ValueError):
                shops.query(sql)

    others = [threading.Thread(target=attack) for _ in range(10)]
    for other in others:
        other.start()
    waited = []
    try:
        for _ in range(20):
            started = time.monotonic()
            assert shops.query("SELECT 1 AS one") == "one\n1"
            waited.append(time.monotonic() - started)
    finally:
        ended.set()
        for other in others:
            other.join()
    assert sorted(waited)[10] < 2


# Whatever a process starts has its standard error, too, which is read to its end.
LEAVES = """
import os, signal, threading
from env_runtime.sql import Database
database = Database("CREATE TABLE t (a)")
began = threading.Event()
def attack():
    began.set()
    database.query(ENDLESS)
threading.Thread(target=attack, daemon=True).start()
began.wait()
database.query("SELECT 1")
END
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_process_and_no_file_is_left(tmp_path, end):
    script = LEAVES.replace("ENDLESS", repr(ENDLESS)).replace("END", end)
    done = subprocess.run(
        [sys.executable, "-c", script],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        check=False,
        env={"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == (-signal.SIGKILL if end else 0), done.stderr.decode()
    assert done.stderr == b""
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="it is found in /proc")
def test_the_process_that_forks_is_started_again(shops):
    for _ in range(2):
        shops.query("SELECT 1")
        files = Path("/proc/self/task").glob("*/children")
        children = {int(pid) for file in files for pid in file.read_text().split()}
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        [pid] = [pid for pid, line in commands.items() if b"sql/process.py" in line]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert shops.query("SELECT 1 AS one") == "one\n1"


# ---------------------------------------------------------------------- grades

OTHER = SCRIPT + "UPDATE shops SET city = 'Oslo' WHERE id = 3;"
REFERENCE = "SELECT DISTINCT city FROM shops JOIN sales ON id = shop_id"


def test_a_query_is_graded_in_each_database():
    one, both = Query(REFERENCE, [SCRIPT]), Query(REFERENCE, [SCRIPT, OTHER])
    assert one.reward(one.solution()) == both.reward(both.solution()) == 1.0
    by_chance = "SELECT city FROM shops WHERE id = 1"
    assert (one.reward(by_chance), both.reward(by_chance)) == (1.0, 0.0)
    written = (
        f"It is:\n```sql\n{REFERENCE.lower().replace('city', 'city AS c', 1)};\n```"
    )
    assert both.reward(written) == 1.0
    assert both.reward(f"```sql\n{REFERENCE}\n```\n```sql\n{REFERENCE}\n```") == 0.0
    for wrong in ("", "Rome", "SELECT 'Rome'", ENDLESS, "DELETE FROM shops"):
        assert both.reward(wrong) == 0.0


def test_rows_of_a_query_count_as_those_of_a_table():
    grader = Query("SELECT id, sum FROM shops, sales ORDER BY 1 DESC, 2", [SCRIPT])
    same = "SELECT id * 1.0, sum + 1e-15 FROM sales, shops"
    assert grader.reward(same) == 1.0
    assert grader.reward(same + " ORDER BY 1, 2") == 1.0
    assert grader.reward(same.replace("id * 1.0", "id || ''")) == 0.0
    assert grader.reward(same.replace("SELECT", "SELECT DISTINCT") + " LIMIT 8") == 0.0
    ordered = Query(grader.solution(), [Database(SCRIPT)], ordered=True)
    assert ordered.reward(same + " ORDER BY 1 DESC, 2") == 1.0
    assert ordered.reward(same + " ORDER BY 1, 2") == 0.0


def test_a_reference_that_finds_nothing_is_refused():
    none = "SELECT name FROM shops WHERE city = 'Oslo'"
    with pytest.raises(ValueError, match=f"the reference finds no rows: .{none[:20]}"):
        Query(none, [SCRIPT])
    with pytest.raises(ValueError, match="no such table: missing"):
        Query("SELECT 1 FROM missing", [SCRIPT])
    grader = Query(none, [SCRIPT, OTHER])  # in one of them is enough
    assert grader.reward("SELECT name FROM shops WHERE city LIKE 'oslo'") == 1.0
    assert grader.reward("SELECT name FROM shops WHERE id = 3") == 0.0


@pytest.mark.parametrize(
    "reference, ordered, change",
    [
        ("SELECT DISTINCT name FROM shops", False, "DISTINCT -> "),
        ("SELECT name FROM shops WHERE id > 0", False, "WHERE id > 0 -> "),
        (
            "SELECT name FROM shops WHERE id > 0 AND city = 'Rome'",
            False,
            "WHERE id > 0 AND -> WHERE",
        ),
        (
            "SELECT name FROM shops WHERE (id = 1 OR city = ')') AND id > 0",
            False,
            "AND id > 0 -> ",
        ),
        ("SELECT 1 FROM rich JOIN shops ON id > 0", False, "ON id > 0 -> "),
        ("SELECT name FROM shops LIMIT 3", False, "LIMIT 3 -> "),
        ("SELECT name FROM shops ORDER BY name", True, "ORDER BY name -> "),
        ("SELECT name FROM rich ORDER BY 1 DESC", True, "DESC -> "),
        ("SELECT name FROM rich ORDER BY 1", True, "ORDER BY 1 -> ORDER BY 1 DESC"),
        ("SELECT name FROM shops WHERE id = 2", False, "the first row"),
        ("SELECT count(*) FROM sales", False, "constants"),
    ],
)
def test_a_change_that_no_database_shows_is_named(reference, ordered, change):
    """Each is told apart by a database in which it finds something else."""
    grader = Query(reference, [SCRIPT, OTHER], ordered=ordered)
    wrong = grader.weaknesses()
    assert change in wrong
    assert all(grader.reward(sql) == 1.0 for sql in wrong.values())
    more = """
        DROP VIEW rich; CREATE VIEW rich AS SELECT name FROM shops WHERE id IN (-1, 1);
        INSERT INTO shops VALUES (-1, 'Zoe', 'Rome'), (-2, 'Zoe', 'Rome'), (-9, 'Al', ')');
        UPDATE shops SET id = 2 - id * 10 WHERE id = 2;
        INSERT INTO shops VALUES (2, 'Yan', NULL), (12, 'Yan', 'Rome');
        INSERT INTO sales VALUES (1, 7);
    """
    if change == "the first row":
        more += "UPDATE shops SET id = 2.0 WHERE id = 2;"
        reference = reference.replace("id = 2", "id BETWEEN 2 AND 3")
    better = Query(reference, [SCRIPT, OTHER, SCRIPT + more], ordered=ordered)
    assert change not in better.weaknesses()


def test_a_count_is_no_weakness_because_it_has_one_row():
    other = SCRIPT + "DELETE FROM shops WHERE id = 3"
    for sql in (
        "SELECT count(*) FROM shops",
        "SELECT name FROM shops ORDER BY id DESC LIMIT 1",
    ):
        assert Query(sql, [SCRIPT, other]).weaknesses() == {}
