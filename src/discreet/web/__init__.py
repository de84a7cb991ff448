"""Pages for people who label, the owner's pages, and a JSON interface with the same verbs.

Guarantee: nobody sees a question that is not theirs, or sees one before that is stored (`discreet.storage.exposures`);
a click never asks a query or trains, unless it is the owner's and says so; nothing of a record is in an address, a log
or an error. Assumption: whoever can read this process's memory, its store or its network holds the data; use TLS.

    discreet serve -> serving.py, connections.py    what is refused; deadlines and caps of connections
                        app.create_app(Hosting)     the factory, the guard around it, and errors as words
                        access.py                   who is asking: a session and its CSRF token, or a bearer token
                        pages.py, queue.py          in and out; one annotator's questions, as pages and as a value
                        owner.py                    the owner's pages and papers; what they show is owner_board.py
                        owner_work.py               asking and training from a page, confirmed, one at a time
                        interface.py                the JSON interface; the owner's: owner_interface.py

The web framework is imported here and nowhere below.
"""
