"""Pages for people who label, the owner's pages, and a JSON interface with the same verbs.

Guarantee: nobody sees a question that is not theirs, or sees one before that is stored (`discreet.storage.exposures`);
a click never asks a query or trains, unless it is the owner's and says so; nothing of a record is in an address, a log
or an error. Assumption: whoever can read this process's memory, its store or its network holds the data; use TLS.

    discreet serve -> app.create_app(Hosting)       the factory; middleware in guards.py
                        access.py                   who is asking: a session and its CSRF token, or a bearer token
                        login.py                    in and out
                        label_pages.py, queue.py    one annotator's questions, as pages and as a value
                        owner.py                    the owner's pages
                        interface.py                the JSON interface

The web framework is imported here and nowhere below.
"""
