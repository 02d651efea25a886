#!/usr/bin/env python3
"""Weaves a README.md and a notebook from each chapter's .cu, and the README's table of chapters.

In a .cu a run of lines that begin with // is prose, in Markdown; all else is code. Three things in
the prose have a meaning here, and read well where they stand:

- `![name]`, a paragraph of its own, is the place of the chapter's picture of that name. Pictures
  without a place follow the code of *How fast?*.
- `*Answer:*` begins an answer, which is folded away until the reader asks for it. It ends where
  the item of the list does, or with its paragraph if it stands in none.
- `## How fast?` and `## Plumbing` begin the two sections whose code is folded away, in chapter 1
  excepted.
"""

import argparse
import hashlib
import re
import sys
from itertools import groupby

import figures
import notebook
from contents import CHAPTERS

ROOT = figures.ROOT
PLACE = re.compile(r"!\[(\w+)\]")
LONG = 15                       # lines of code in *How fast?* that are folded away if more


class Wrong(Exception):
    """What the weaver cannot do. The message says what to mend."""


# ---- from the .cu -------------------------------------------------------------------------------

def chapters():
    """Folders with a number and a name, and in each a .cu of that name, as in the Makefile."""
    return sorted(path.parent.name for path in ROOT.glob("[0-9][0-9]_*/*.cu")
                  if path.parent.name[3:] == path.stem)


def source_of(chapter):
    return (ROOT / chapter / f"{chapter[3:]}.cu").read_text(encoding="utf-8")


def paragraphs_of(prose):
    """Prose in pieces that an empty line separates. One inside a fence does not."""
    pieces, fenced = [[]], False
    for line in prose:
        fenced ^= line.lstrip().startswith("```")
        if line.strip() or fenced:
            pieces[-1].append(line)
        elif pieces[-1]:
            pieces.append([])
    return ["\n".join(piece) for piece in pieces if piece]


def pieces_of(source):
    """[(kind, text)] of a .cu: "prose", a paragraph each, and "code".

    An #endif that stands alone is put before the next code, where it is in nobody's way.
    """
    found, alone = [], ""
    for is_prose, lines in groupby(source.splitlines(), lambda line: line.startswith("//")):
        if is_prose:
            prose = [re.sub("^// ?", "", line) for line in lines]
            found += [("prose", paragraph) for paragraph in paragraphs_of(prose)]
            continue
        code = alone + "\n".join(lines).strip("\n")
        alone = f"{code}\n\n" if code == "#endif" else ""
        if code and not alone:
            found.append(("code", code))
    return found + ([("code", alone.strip())] if alone else [])


def title_of(chapter):
    return pieces_of(source_of(chapter))[0][1].partition("\n")[0].removeprefix("# ")


# ---- answers ------------------------------------------------------------------------------------

def fold_answers(pieces):
    """Puts what begins with *Answer:* into <details>, at its own indentation."""
    folded, indent = [], None   # indentation of the answer that is open

    def close():
        if indent is not None:
            folded.append(("prose", f"{indent}</details>"))

    for kind, text in pieces:
        answer = kind == "prose" and re.match(r"( *)\*Answer:\* *(?=\S)", text)
        inside = indent and kind == "prose" and text.startswith(indent)
        if not inside or answer:
            close()
            indent = None
        if answer:
            indent = answer[1]
            folded.append(("prose", f"{indent}<details><summary>Answer</summary>"))
            text = indent + text[answer.end()].upper() + text[answer.end() + 1:]
        folded.append((kind, text))
    close()
    return folded


# ---- another language ---------------------------------------------------------------------------

def key_of(paragraph):
    return hashlib.sha256(" ".join(paragraph.split()).encode()).hexdigest()[:8]


def translate(pieces, translation):
    """Each paragraph in the other language; in English, and marked, where it has changed since.

    A translation is a text of paragraphs, each under a line <!-- key of the English one -->.
    """
    parts = re.split(r"^<!-- ([0-9a-f]{8}) -->\n", translation, flags=re.MULTILINE)[1:]
    known = {key: text.strip("\n") for key, text in zip(parts[::2], parts[1::2])}
    found = []
    for kind, text in pieces:
        key = key_of(text)
        found.append((kind, known.get(key, text) if kind == "prose" else text))
        if kind == "prose" and key not in known:
            indent = text[:len(text) - len(text.lstrip(" "))]
            found.append(("prose", f"{indent}*(not translated since it changed: {key})*"))
    return found


# ---- with what has been measured ----------------------------------------------------------------

def whole(chapter, language=None):
    """The pieces of a chapter with all that belongs between them.

    Their kinds are "prose", "generated", "page" (generated, and for the README.md alone), and three
    of code: "code", "harness" (of *How fast?*) and "plumbing".
    """
    pieces, pictures = pieces_of(source_of(chapter)), figures.pictures_of(chapter)
    placed = [place[1] for _, text in pieces if (place := PLACE.fullmatch(text))]
    unknown = set(placed) - figures.names_of_pictures(chapter)
    if unknown:
        raise Wrong(f"{chapter}: plots/catalogue.py has no picture {', '.join(sorted(unknown))}")

    found, section = [], "code"
    for kind, text in pieces:
        if place := PLACE.fullmatch(text):
            kind, text = "page", pictures.get(place[1], "")
        elif kind == "prose" and text.startswith("## "):
            section = {"## How fast?": "harness", "## Plumbing": "plumbing"}.get(text, "code")
            if section == "harness":
                found += [("page", f"`make run-{chapter[:2]}`, in the folder above this one, builds the program and runs it. "
                           f"Without a GPU it\nruns on the CPU device, as `../cpu_device/run {chapter[3:]}.cu` does."),
                          ("generated", figures.output_of(chapter))]
        found.append((section if kind == "code" else kind, text))
        if kind == "code" and "BENCHMARK_MAIN();" in text:
            found.append(("generated", figures.tables_of(chapter)))
            found += [("page", text) for name, text in pictures.items() if name not in placed]
            section = "code"
    if language:
        path = ROOT / "book" / "translations" / language / f"{chapter}.md"
        found = translate(found, path.read_text(encoding="utf-8") if path.is_file() else "")
    return fold_answers(found)


# ---- into a README.md ---------------------------------------------------------------------------

def details(summary, text):
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def fenced(code):
    return f"```cuda\n{code}\n```"


def is_folded(chapter, kind, code):
    return not chapter.startswith("01") and (
        kind == "plumbing" or kind == "harness" and len(code.splitlines()) > LONG)


def neighbours(chapter, titles):
    order = list(titles)
    at = order.index(chapter)
    links = [f"← [{titles[name]}](../{name}/README.md)" for name in order[:at][-1:]]
    links.append("[Contents](../README.md)")
    links += [f"[{titles[name]}](../{name}/README.md) →" for name in order[at + 1:][:1]]
    return " · ".join(links)


def readme(chapter, pieces, titles, repository):
    name = chapter[3:]
    heading, *pieces = pieces
    texts = [f"<!-- make book wove this from {name}.cu: change that. -->", heading[1],
             notebook.badge(repository, f"{chapter}/{name}.ipynb"),
             neighbours(chapter, titles),
             f"The program: [{name}.cu]({name}.cu) · as a notebook: [{name}.ipynb]({name}.ipynb)"]
    folded = []                 # from the first code of the plumbing on, all goes here
    for kind, text in pieces:
        if kind in ("prose", "generated", "page"):
            shown = text
        elif kind == "harness" and is_folded(chapter, kind, text):
            shown = details(f"{len(text.splitlines())} lines of code", fenced(text))
        else:
            shown = fenced(text)
        away = folded or kind == "plumbing" and is_folded(chapter, kind, text)
        (folded if away else texts).append(shown)
    if folded:
        count = sum(len(text.splitlines()) for kind, text in pieces if kind == "plumbing")
        texts.append(details(f"{count} lines of code", figures.blocks(*folded)))
    texts += ["---", neighbours(chapter, titles)]
    return figures.blocks(*texts) + "\n"


# ---- all of it ----------------------------------------------------------------------------------

def repository_of(text):
    """owner/name from book/repository, or nothing."""
    values = re.findall(r"^REPOSITORY=(.*)$", text, re.MULTILINE)
    if len(values) != 1 or not re.fullmatch(r"(?:[\w.-]+/[\w.-]+)?", values[0]):
        raise Wrong("book/repository: one line REPOSITORY=owner/name, or REPOSITORY= alone")
    return values[0]


def contents(titles):
    """The README at the top, whose generated parts are between marks."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for what, made in (("chapters", figures.chapters_table(titles)), ("tests", figures.tests_came_to())):
        text, count = re.subn(rf"<!-- generated: {what} -->\n.*?<!-- end -->",
                              lambda _: figures.generated(what, made), text, flags=re.DOTALL)
        if count != 1:
            raise Wrong(f"README.md: there must be one line <!-- generated: {what} --> and, after "
                        "what is made there, <!-- end -->; the rest is woven")
    return text


def woven(language=None):
    """{path: text, or None for a file that must not be there}."""
    repository = repository_of((ROOT / "book" / "repository").read_text(encoding="utf-8"))
    titles = {chapter: title_of(chapter) for chapter in chapters()}
    strangers = sorted(set(titles) - set(CHAPTERS))
    if strangers:
        raise Wrong(f"book/contents.py says nothing of {', '.join(strangers)}")
    languages = [folder.name for folder in (ROOT / "book" / "translations").glob("*")]
    if language and language not in languages:
        raise Wrong(f"--language {language}: there is no folder book/translations/{language}")
    files, suffix = {}, f".{language}" if language else ""
    for chapter in titles:
        pieces = whole(chapter, language)
        files[f"{chapter}/README{suffix}.md"] = readme(chapter, pieces, titles, repository)
        files[f"{chapter}/{chapter[3:]}{suffix}.ipynb"] = notebook.of_chapter(
            chapter, pieces, figures.data_of(chapter), repository, is_folded)
    if not language:
        files["book/book.ipynb"] = notebook.of_book(repository) if repository else None
    return files, titles


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true",
                        help="write nothing, and name each file that is not as it would be woven")
    parser.add_argument("--language", metavar="CODE", help="with book/translations/CODE/NN_name.md")
    options = parser.parse_args(arguments)
    files, failed, wrong = {}, False, []
    try:
        files, titles = woven(options.language)
        if not options.language:
            files["README.md"] = contents(titles)
    except (Wrong, figures.reader.BadResults) as error:
        print(f"weave.py: {error}", file=sys.stderr)
        failed = True
    for name, text in files.items():
        path = ROOT / name
        if (path.read_bytes() if path.is_file() else None) == (text and text.encode()):
            continue
        wrong.append(name)
        if options.check:
            print(f"{name} is not what `make book` makes", file=sys.stderr)
        elif text is None:
            path.unlink()
        else:
            figures.reader.write_whole(path, text)
    if not options.check:
        print(f"{len(files)} files woven, {len(wrong)} of them changed")
    return int(failed or (options.check and bool(wrong)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"weave.py: {error}")
