"""The parts of the model server of specialists: embeddings, rerankers and classifiers."""
