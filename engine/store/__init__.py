"""The durable edge: the documents of an execution, the protocol of every store, and the change feed.

It stands on `ground` and `values`. It must not know a workflow's code: `core` stands beside it. The two stores are
`sqlite` and `cosmos`; everyone else speaks to `base.Store`.
"""
