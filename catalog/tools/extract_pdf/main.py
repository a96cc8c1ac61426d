import json
import logging
import sys

from pypdf import PdfReader
from pypdf.errors import PyPdfError

MAX_CHARACTERS = 1_000_000
MAX_PAGES = 2_000
# The library logs verbosely about damaged files.
logging.disable(logging.CRITICAL)


class Refused(Exception):
    """The file cannot be read; the message starts with the name of the input field."""


def chosen(text, count):
    """Parses page numbers such as `1-3,7`; the first page is 1."""
    if text is None:
        return list(range(1, min(count, MAX_PAGES) + 1))
    numbers = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            begin, end = int(first), int(last or first)
        except ValueError:
            raise Refused(f"pages: {part.strip()!r} is not a page; expected numbers and ranges such as 1-3,7") from None
        if not 1 <= begin <= end <= count:
            raise Refused(f"pages: {part.strip()} is out of range; the file has {count} pages")
        numbers += range(begin, end + 1)
        if len(numbers) > MAX_PAGES:
            raise Refused(f"pages: at most {MAX_PAGES} pages can be read at once")
    return list(dict.fromkeys(numbers))


def read(given):
    with open("/hearth/input/file_url", "rb") as file:
        if b"%PDF-" not in file.read(1024):
            raise Refused("file_url: the file is not a PDF")
    try:
        reader = PdfReader("/hearth/input/file_url")
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused("file_url: the PDF is password-protected")
        count = len(reader.pages)
        pages, left = [], MAX_CHARACTERS
        for number in chosen(given.get("pages"), count):
            text = reader.pages[number - 1].extract_text()
            pages.append({"page": number, "text": text[:left]})
            if len(text) > left:
                return result(reader, count, pages, True)
            left -= len(text)
        return result(reader, count, pages, given.get("pages") is None and count > MAX_PAGES)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise Refused(f"file_url: the PDF cannot be read: {error or type(error).__name__}") from error


def result(reader, count, pages, truncated):
    title = reader.metadata.title if reader.metadata else None
    return {"page_count": count, "title": title and str(title), "pages": pages, "truncated": truncated}


def main():
    with open("/hearth/input/input.json", encoding="utf-8") as file:
        given = json.load(file)
    try:
        json.dump(read(given), sys.stdout)
    except Refused as error:
        json.dump({"error": {"message": str(error)}}, sys.stdout)
        sys.exit(2)


main()
