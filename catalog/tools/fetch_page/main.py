import http.client
import json
import socket
import ssl
import sys
from urllib.parse import urljoin, urlsplit

import trafilatura

PROXY = "/hearth/egress.sock"
MAX_REDIRECTS = 5
MAX_BYTES = 10 << 20
MAX_CHARACTERS = 400_000
TIMEOUT_S = 20
HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; Hearth fetch_page)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5",
    "Accept-Encoding": "identity",
}
PAGES = ("text/html", "application/xhtml+xml")


class Refused(Exception):
    """The page cannot be fetched; the message is for the caller."""


def connect(host, port):
    """Opens a connection through the node's proxy, the only way out."""
    tunnel = socket.socket(socket.AF_UNIX)
    tunnel.settimeout(TIMEOUT_S)
    tunnel.connect(PROXY)
    tunnel.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    answer = http.client.HTTPResponse(tunnel, method="CONNECT")
    answer.begin()
    if answer.status != 200:
        raise Refused(f"{host} cannot be reached: {answer.read(500).decode().strip()}")
    return trusted().wrap_socket(tunnel, server_hostname=host)


def trusted():
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def get(url):
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port or 443
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.sock = connect(host, port)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("GET", path, headers={"Host": host if port == 443 else f"{host}:{port}", **HEADERS})
    return connection.getresponse()


def fetch(url):
    for _ in range(MAX_REDIRECTS + 1):
        url = urlsplit(url)._replace(fragment="").geturl()
        if url.startswith("http://"):
            url = "https://" + url[len("http://") :]
        if not url.startswith("https://"):
            raise Refused("it must be a URL that begins with https://")
        answer = get(url)
        target = answer.getheader("Location")
        if answer.status not in (301, 302, 303, 307, 308) or not target:
            break
        url = urljoin(url, target)
    else:
        raise Refused(f"it redirects more than {MAX_REDIRECTS} times")
    if answer.status != 200:
        raise Refused(f"the server responded with {answer.status} {answer.reason}")
    return url, answer


def text_of(body, answer):
    charset = answer.headers.get_content_charset() or "utf-8"
    try:
        return body.decode(charset, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def main_content(body, url, kind):
    found = trafilatura.extract(
        body,
        url=url,
        output_format="markdown" if kind == "markdown" else "txt",
        include_links=kind == "markdown",
        include_formatting=kind == "markdown",
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    return found or trafilatura.html2txt(body)


def title_of(body):
    found = trafilatura.extract_metadata(body)
    return found.title if found else None


def page(given):
    kind = given.get("output_format", "markdown")
    url, answer = fetch(given["url"])
    content_type = answer.headers.get_content_type()
    if not content_type.startswith("text/") and content_type not in (*PAGES, "application/json", "application/xml"):
        raise Refused(f"it is {content_type}, not a page")
    body = answer.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise Refused(f"the page is larger than {MAX_BYTES >> 20} MB")
    is_page = content_type in PAGES
    content = main_content(body, url, kind) if is_page and kind != "html" else text_of(body, answer)
    return {
        "url": url,
        "title": title_of(body) if is_page else None,
        "content_type": content_type,
        "content": content[:MAX_CHARACTERS],
        "truncated": len(content) > MAX_CHARACTERS,
    }


def main():
    with open("/hearth/input/input.json", encoding="utf-8") as file:
        given = json.load(file)
    try:
        result = page(given)
    except Refused as error:
        fault = str(error)
    except ssl.SSLError as error:
        fault = f"a TLS connection could not be established: {error.reason or error}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        fault = f"it could not be fetched: {error or type(error).__name__}"
    else:
        json.dump(result, sys.stdout)
        return
    json.dump({"error": {"message": f"url: {fault}", "path": "/url"}}, sys.stdout)
    sys.exit(2)


main()
