"""A WSGI application like many: a session is checked, rows are looked up in SQLite, and a page is made of them."""

import hashlib
import hmac
import html
import json
import os
import sqlite3
from http import cookies
from string import Template

SECRET = b"not much of one"
PAGE = Template(
    "<!doctype html><title>$title</title><h1>$title</h1><table>$rows</table><script>let cart = $cart</script>"
)
ROW = Template('<tr id="$id"><td>$name<td>$price<td>$stock<td>$note')


def stocked():
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, category INTEGER, name, price REAL, stock INTEGER, note)")
    shop.execute("CREATE INDEX by_category ON items (category)")
    items = [(n, n % 80, f"item <{n}>", n * 7919 % 9973 / 100, n * 31 % 50, "a & b " * (n % 7)) for n in range(2000)]
    shop.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", items)
    shop.row_factory = sqlite3.Row
    return shop


SHOP = stocked()


def visitor(environ):
    jar = cookies.SimpleCookie(environ.get("HTTP_COOKIE", "session=anonymous"))
    name = jar["session"].value
    return name, hmac.new(SECRET, name.encode(), hashlib.sha256).hexdigest()


def page(environ, number):
    found = SHOP.execute("SELECT * FROM items WHERE category = ? ORDER BY price DESC", (number % 80,)).fetchall()
    rows = []
    for item in found:
        texts = {key: html.escape(str(item[key])) for key in item.keys()}
        rows.append(ROW.substitute(texts))
    name, signature = visitor(environ)
    cart = json.dumps({"visitor": name, "signature": signature, "items": [dict(item) for item in found[:5]]})
    return PAGE.substitute(title=f"Category {number % 80}", rows="".join(rows), cart=cart)


def application(environ, start_response):
    number = int(environ["PATH_INFO"].rpartition("/")[2])
    body = f"{os.getpid()} {number} {page(environ, number)}".encode()
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
