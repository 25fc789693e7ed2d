"""Does a recording keep to a budget?"""
