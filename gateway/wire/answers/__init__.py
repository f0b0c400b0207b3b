"""The answers of all routes and the events of streams, as structs (see `gateway.api_document`).

Writers make plain dictionaries. Every answer of a test is compared with these structs.
"""
