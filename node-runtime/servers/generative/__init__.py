"""The parts of the model server of generative models: images, audio, video and 3D scenes."""
